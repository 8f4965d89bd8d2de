//! Decisions of whole policies.

use super::*;
use crate::denial::Denial;
use crate::host::HostName;
use crate::host_pattern::HostPattern;
use crate::reason::Reason;
use crate::rule::RuleKind;
use crate::scheme::Scheme;

fn policy() -> Allowlist {
    Allowlist::from_yaml(
        "
domains:
  - docs.example
  - '*.docs.example'
  - 192.0.2.7
url_prefixes:
  - {host: api.example, path: /search}
  - {host: api.example, path: '/repos/*', methods: [GET]}
  - {host: api.example, path: '/repos/own/*', methods: [POST, Put]}
  - {host: '*', path: /health, methods: [GET]}
  - {host: docs.example, path: /never-reached}
  - {host: free.example}
",
        "policy.yaml",
    )
    .unwrap()
}

fn decide(policy: &Allowlist, method: &str, host: &str, target: &str) -> Result<(RuleKind, usize), Denial> {
    let request =
        Request::from_wire(Scheme::Http, host.as_bytes(), method.as_bytes(), target.as_bytes()).unwrap();
    match policy.decide(&request) {
        Decision::Allow(rule) => Ok((rule.kind, rule.index)),
        Decision::NeedsBody(_) => panic!("{host}{target} needs its body"),
        Decision::Deny(denial) => Err(denial),
    }
}

#[test]
fn decisions() {
    use RuleKind::{Domain, Url};
    let policy = policy();
    for (method, host, target, expected) in [
        ("DELETE", "docs.example", "/never-reached", Ok((Domain, 0))),
        ("GET", "A.B.Docs.Example.", "/", Ok((Domain, 1))),
        ("GET", "192.0.2.7", "/x", Ok((Domain, 2))),
        ("GET", "api.example", "/search", Ok((Url, 0))),
        ("PATCH", "api.example", "/search", Ok((Url, 0))),
        ("GET", "api.example", "/repos/own/x", Ok((Url, 1))),
        ("get", "api.example", "/repos/own/x?a=b", Ok((Url, 1))),
        ("PUT", "api.example", "/repos/own/x", Ok((Url, 2))),
        ("post", "api.example", "/repos%2fown/x", Ok((Url, 2))),
        ("GET", "anything.example", "/health", Ok((Url, 3))),
        ("DELETE", "free.example", "/a/b?c", Ok((Url, 5))),
        ("DELETE", "api.example", "/repos/own/x", Err(Reason::Method)),
        ("HEAD", "api.example", "/repos/x", Err(Reason::Method)),
        ("POST", "api.example", "/repos/x", Err(Reason::Method)),
        ("GET", "api.example", "/search?q=1", Err(Reason::Query)),
        ("GET", "api.example", "/search?", Err(Reason::Query)),
        ("GET", "api.example", "/Search", Err(Reason::PathNotAllowed)),
        ("GET", "api.example", "/repos", Err(Reason::PathNotAllowed)),
        ("POST", "other.example", "/health", Err(Reason::Method)),
        ("GET", "other.example", "/", Err(Reason::PathNotAllowed)),
        ("GET", "192.0.2.8", "/health", Err(Reason::Host)),
    ] {
        let decision = decide(&policy, method, host, target).map_err(|denial| denial.reason());
        assert_eq!(decision, expected, "{method} {host}{target}");
    }
}

#[test]
fn preset_rule_is_named_with_its_preset_and_tried_after_own_rules() {
    let policy = Allowlist::from_yaml(
        "presets: [openai, github, openai]\ndomains: [a.example]\nurl_prefixes: [{host: api.github.com, path: /graphql}]",
        "policy.yaml",
    );
    let policy = policy.unwrap().with_rules([Rule::from(HostPattern::new("b.example").unwrap())]);
    let rule = |method: &str, url: &str| match policy.judge(method, url) {
        Decision::Allow(rule) => (rule.preset, rule.index),
        other => panic!("{other:?}"),
    };
    assert_eq!(rule("GET", "https://b.example/"), (None, 1));
    assert_eq!(rule("GET", "https://api.github.com/graphql"), (None, 0));
    assert_eq!(rule("GET", "https://api.openai.com/v1/models"), (Some("openai".to_owned()), 4));
    assert_eq!(rule("GET", "https://api.github.com/repos/o/r"), (Some("github".to_owned()), 5));
    assert_eq!(policy.presets().len(), 2);
    let host = HostName::from_wire(b"github.com").unwrap();
    assert!(!policy.has_repository_rules_for(&host) && policy.has_path_rules_for(&host));
}

#[test]
fn empty_policy_allows_nothing() {
    let policy = Allowlist::default();
    assert!(policy.is_empty());
    assert_eq!(decide(&policy, "GET", "a.example", "/").unwrap_err().reason(), Reason::Host);
}

/// Pasting the proposal of a message allows the request.
#[test]
fn messages_name_the_file_and_an_entry_that_works() {
    let policy = policy();
    let long = format!("/{}", "x".repeat(500));
    for (method, host, target) in [
        ("DELETE", "api.example", "/repos/own/x"),
        ("GET", "api.example", "/search?q=1"),
        ("GET", "api.example", "/a%2Ab%3F%5B,%7Bc%7D:%20%22d%22"),
        ("GET", "api.example", long.as_str()),
        ("GET", "nothing.test.", "/x"),
    ] {
        let denial = decide(&policy, method, host, target).unwrap_err();
        let message = denial.message_naming("some/policy.yaml");
        assert!(message.contains(" in some/policy.yaml") && !message.contains('\n'), "{message}");
        let start = message.find("{host").expect(&message);
        let end = message.find(" to `url_prefixes`").expect(&message);
        let entry = &message[start..end];
        let proposed = Allowlist::from_yaml(&format!("url_prefixes: [{entry}]"), "proposal").expect(&message);
        assert_eq!(decide(&proposed, method, host, target), Ok((RuleKind::Url, 0)), "{message}");
    }
}

#[test]
fn repositories() {
    let policy = Allowlist::from_yaml(
        "
domains: [whole.example]
url_prefixes:
  - {host: a.example, path: /me/r.git, git: {push: [refs/heads/agent/*]}}
  - {host: a.example, path: /me/*, git: {}}
  - {host: a.example, path: '/files/*'}
  - {host: whole.example, path: /r, git: {push: [refs/heads/x]}}
",
        "policy.yaml",
    )
    .unwrap();
    for (method, host, target, expected) in [
        ("GET", "a.example", "/me/r/info/refs?service=git-upload-pack", Ok(Some(0))),
        ("POST", "a.example", "/me/r.git/git-upload-pack", Ok(Some(0))),
        ("GET", "a.example", "/me/r.git/info/refs?service=git-receive-pack", Ok(Some(0))),
        ("POST", "a.example", "/me/r.git/git-receive-pack", Ok(None)),
        ("POST", "a.example", "/me/s/git-upload-pack", Ok(Some(1))),
        ("POST", "a.example", "/me/s/git-receive-pack", Err(Reason::RefNotAllowed)),
        ("GET", "a.example", "/me/s/info/refs?service=git-receive-pack", Err(Reason::RefNotAllowed)),
        ("GET", "a.example", "/me/r.git/HEAD", Err(Reason::PathNotAllowed)),
        ("GET", "a.example", "/me/r.git/info/refs", Err(Reason::PathNotAllowed)),
        ("POST", "a.example", "/files/git-receive-pack", Err(Reason::PathNotAllowed)),
        ("GET", "a.example", "/files/x", Ok(Some(2))),
        ("GET", "whole.example", "/anything?service=git-upload-pack", Ok(Some(0))),
        ("POST", "whole.example", "/r/git-receive-pack", Ok(None)),
        ("POST", "whole.example", "/s/git-receive-pack", Err(Reason::PathNotAllowed)),
        ("PUT", "whole.example", "/r/git%252dreceive-pack;x", Err(Reason::PathNotAllowed)),
    ] {
        let request =
            Request::from_wire(Scheme::Http, host.as_bytes(), method.as_bytes(), target.as_bytes()).unwrap();
        let decision = match policy.decide(&request) {
            Decision::Allow(rule) => Ok(Some(rule.index)),
            Decision::NeedsBody(_) => Ok(None),
            Decision::Deny(denial) => Err(denial.reason()),
        };
        assert_eq!(decision, expected, "{method} {host}{target}");
    }
    let a = HostName::from_wire(b"a.example").unwrap();
    let whole = HostName::from_wire(b"whole.example").unwrap();
    for host in [&a, &whole] {
        assert!(policy.has_method_rules_for(host) && policy.has_path_rules_for(host), "{host}");
    }
    // After pasting the proposal of a message, the decision about the push depends on its body.
    let denial = decide(&policy, "POST", "whole.example", "/s.git/git-receive-pack").unwrap_err().to_string();
    let start = denial.find("{host").unwrap();
    let end = denial.find(" to `url_prefixes`").unwrap();
    let proposed =
        Allowlist::from_yaml(&format!("url_prefixes: [{}]", &denial[start..end]), "proposal").unwrap();
    let request =
        Request::from_wire(Scheme::Http, b"whole.example", b"POST", b"/s.git/git-receive-pack").unwrap();
    assert!(matches!(proposed.decide(&request), Decision::NeedsBody(_)), "{denial}");
}

#[test]
fn messages_are_stable() {
    let policy = policy();
    for (method, target, expected) in [
        (
            "DELETE",
            "/repos/own/x",
            "DELETE is not allowed for this path of api.example: to allow it, add {host: \"api.example\", path: \
             \"/repos/own/x\", methods: [DELETE]} to `url_prefixes` in .sandbox/network-allowlist.yaml",
        ),
        (
            "GET",
            "/search?q=1",
            "this path of api.example is allowed without a query string only: to allow one, end the path with `*`, \
             that is, add {host: \"api.example\", path: \"/search*\"} to `url_prefixes` in \
             .sandbox/network-allowlist.yaml",
        ),
        (
            "GET",
            "/x",
            "this path of api.example is not allowed: to allow it, add {host: \"api.example\", path: \"/x\"} to \
             `url_prefixes` in .sandbox/network-allowlist.yaml",
        ),
    ] {
        assert_eq!(
            decide(&policy, method, "api.example", target)
                .unwrap_err()
                .message_naming(".sandbox/network-allowlist.yaml"),
            expected
        );
    }
    assert_eq!(
        decide(&Allowlist::default(), "GET", "a.example", "/x")
            .unwrap_err()
            .message_naming(".sandbox/network-allowlist.yaml"),
        "a.example is not allowed: to allow it, add \"a.example\" to `domains` in .sandbox/network-allowlist.yaml, or \
         for this path only {host: \"a.example\", path: \"/x\"} to `url_prefixes`"
    );
    let denial = decide(&Allowlist::default(), "GET", "a.example", "/x").unwrap_err();
    assert_eq!(
        denial.message(),
        "a.example is not allowed: to allow it, add \"a.example\" to `domains`, or for this path only {host: \
         \"a.example\", path: \"/x\"} to `url_prefixes`"
    );
    assert_eq!(denial.to_string(), denial.message());
}

#[test]
fn method_rules_are_found_by_host() {
    let policy = Allowlist::from_yaml(
        "url_prefixes: [{host: a, path: /x, methods: [GET]}, {host: b}, {host: '*.c', methods: [GET]}]",
        "policy.yaml",
    )
    .unwrap();
    for (host, expected) in [("a", true), ("b", false), ("x.c", true), ("d", false)] {
        assert_eq!(
            policy.has_method_rules_for(&HostName::from_wire(host.as_bytes()).unwrap()),
            expected,
            "{host}"
        );
    }
}

#[test]
fn path_rules_are_found_by_host() {
    let policy = Allowlist::from_yaml(
        "domains: [whole.example]\nurl_prefixes: [{host: whole.example, path: /x}, {host: part.example, path: '*'}, \
         {host: part.example, path: /x}, {host: every.example}, {host: all.example, path: '/*', methods: [GET]}]",
        "policy.yaml",
    )
    .unwrap();
    for (host, expected) in [
        ("whole.example", false),
        ("part.example", true),
        ("every.example", false),
        ("all.example", false),
        ("none.example", false),
    ] {
        let host = HostName::from_wire(host.as_bytes()).unwrap();
        assert_eq!(policy.has_path_rules_for(&host), expected, "{host}");
    }
}

fn denying() -> Allowlist {
    Allowlist::from_yaml(
        "
presets: [github]
deny:
  - ads.example
  - '*.ads.example'
  - {host: api.example, path: '/admin*'}
  - {host: api.example, path: /Repos/secret}
  - {host: api.example, path: '/files/*', methods: [put, DELETE]}
  - {host: github.com, path: '/Org/secret*'}
domains: [api.example, ads.example]
url_prefixes: [{host: api.example, path: '/files/*', methods: [GET, PUT]}]
",
        "policy.yaml",
    )
    .unwrap()
}

#[test]
fn deny_rule_is_tried_before_all_others() {
    let policy = denying();
    for (method, host, target, expected) in [
        ("GET", "ads.example", "/", Some(0)),
        ("GET", "x.ads.example", "/y", Some(1)),
        ("GET", "api.example", "/admin", Some(2)),
        ("POST", "api.example", "/admin/x?y", Some(2)),
        ("PUT", "api.example", "/files/x", Some(4)),
        ("delete", "api.example", "/files/x", Some(4)),
        ("GET", "api.example", "/files/x", None),
        ("GET", "api.example", "/repos/other", None),
        ("GET", "api.example", "/repos/secret2", None),
        ("GET", "github.com", "/org/secret.git/info/refs?service=git-upload-pack", Some(5)),
        ("GET", "github.com", "/org/other.git/info/refs?service=git-upload-pack", None),
    ] {
        let denied = decide(&policy, method, host, target).err();
        let rule = denied.as_ref().and_then(Denial::denied_by);
        assert_eq!(rule, expected, "{method} {host}{target}");
        let reason = denied.as_ref().map(Denial::reason);
        assert_eq!(reason, expected.map(|_| Reason::Denied), "{method} {host}{target}");
    }
    let denied = decide(&policy, "GET", "ads.example", "/").unwrap_err();
    assert_eq!(
        denied.message_naming("policy.yaml"),
        "a rule of `deny` forbids this request to ads.example: to allow it, remove `deny[0]` in policy.yaml"
    );
}

/// Servers read paths in different ways: none of these is a way around the rule.
#[test]
fn denied_path_is_denied_in_every_reading() {
    let policy = denying();
    for target in [
        "/repos/secret",
        "/REPOS/Secret",
        "/repos//secret",
        "//repos/secret",
        "/repos/secret/",
        "/repos/secret//",
        "/repos/secret;v=1",
        "/repos;v=1/secret",
        "/repos/secret?x=1",
        "/repos/secret/?x=1",
        "/%72epos/secret",
        "/%2572epos/secret",
        "/repos%2fsecret",
        "/repos%252fsecret",
        "/repos%2f%2fsecret",
        "/repos/secret%3bv=1",
        "/repos/secret%3fx=1",
        "/repos/%73ecre%2574",
    ] {
        let denied = decide(&policy, "GET", "api.example", target).map_err(|denial| denial.reason());
        assert_eq!(denied, Err(Reason::Denied), "{target}");
        // Control: without the rule, each is allowed.
        let open = policy.clone().with_denied(Vec::new());
        assert!(decide(&open, "GET", "api.example", target).is_ok(), "{target}");
    }
    // A pattern may be written in another spelling too, and a wildcard covers addresses.
    let policy = "domains: [web.example, 203.0.113.5]
deny: [{host: web.example, path: '/web/http://evil*'}, {host: web.example, path: '/s[?]q=a%20b'}, {host: web.example, path: '/f[?]filter%5Bname%5D=x'}, {host: web.example, path: '/x;action=delete'}, {host: web.example, path: /folder/}, {host: '*', methods: [DELETE]}]";
    let policy = Allowlist::from_yaml(policy, "p").unwrap();
    for (method, host, target, is_denied) in [
        ("GET", "web.example", "/web/http://evil.example", true),
        ("GET", "web.example", "/web/http:/evil.example", true),
        ("GET", "web.example", "/s?q=a%20b", true),
        ("GET", "web.example", "/s?q=%61%20b", true),
        ("GET", "web.example", "/s?q=c", false),
        ("GET", "web.example", "/f?filter[name]=x", true),
        ("GET", "web.example", "/f?filtern=x", false),
        ("GET", "web.example", "//x;action=delete", true),
        ("GET", "web.example", "/x;action=delete/", true),
        ("GET", "web.example", "/folder", true),
        ("DELETE", "203.0.113.5", "/x", true),
        ("GET", "203.0.113.5", "/x", false),
    ] {
        assert_eq!(decide(&policy, method, host, target).is_err(), is_denied, "{method} {host}{target}");
    }
    let queries = Allowlist::from_yaml(
        "domains: [api.example]\ndeny: [{host: api.example, path: '/s[?]q=secret*'}]",
        "p",
    );
    for (target, is_denied) in
        [("/s?q=secret", true), ("/s?q=%73ecret&x", true), ("/S?Q=SECRET", true), ("/s?q=other", false)]
    {
        let judged = decide(queries.as_ref().unwrap(), "GET", "api.example", target);
        assert_eq!(judged.is_err(), is_denied, "{target}");
    }
}

#[test]
fn denied_request_stays_judged_and_no_header_evades_it() {
    let policy = denying();
    let request = |host: &str, target: &str| {
        Request::from_wire(Scheme::Http, host.as_bytes(), b"GET", target.as_bytes()).unwrap()
    };
    assert!(policy.stays_judged(&request("ads.example", "/")));
    assert!(policy.stays_judged(&request("api.example", "/ADMIN")));
    assert!(!policy.stays_judged(&request("api.example", "/other")));
    assert_eq!(policy.missing_rule(&request("ads.example", "/"), true), Err(crate::learn::LeftOut::Denied));
    let host = |name: &str| HostName::from_wire(name.as_bytes()).unwrap();
    let whole = "domains: [a.example, b.example, c.example]\n";
    let policy = format!(
        "{whole}deny: [{{host: a.example, path: /x}}, {{host: b.example, methods: [POST]}}, c.example]"
    );
    let policy = Allowlist::from_yaml(&policy, "p").unwrap();
    for (name, method, path) in
        [("a.example", true, true), ("b.example", true, false), ("c.example", false, false)]
    {
        let counts = (policy.has_method_rules_for(&host(name)), policy.has_path_rules_for(&host(name)));
        assert_eq!(counts, (method, path), "{name}");
        let open = Allowlist::from_yaml(whole, "p").unwrap();
        assert!(!open.has_method_rules_for(&host(name)) && !open.has_path_rules_for(&host(name)), "control");
    }
}

#[test]
fn denied_repository_is_denied_with_everything_below_it() {
    let rule = "url_prefixes: [{host: git.example, path: /me/app.git, git: {}}]";
    let rule = Allowlist::from_yaml(rule, "p").unwrap().rules()[0].clone();
    let policy = Allowlist::from_yaml("domains: [git.example]", "p").unwrap().denying(&rule);
    for target in ["/me/app", "/me/app.git/info/refs?service=git-upload-pack", "/me/app/git-upload-pack"] {
        assert!(decide(&policy, "POST", "git.example", target).is_err(), "{target}");
    }
    assert!(decide(&policy, "GET", "git.example", "/me/other").is_ok());
    // A denial opens nothing: other pushes to the host stay refused.
    let policy = "domains: [git.example]\nurl_prefixes: [{host: git.example, path: /me/app, git: {}}]";
    let policy = Allowlist::from_yaml(policy, "p").unwrap().denying(&"git.example/me/*".parse().unwrap());
    assert!(decide(&policy, "POST", "git.example", "/other/repo/git-receive-pack").is_err());
    let error =
        Allowlist::from_yaml("deny:\n  - {host: git.example, path: /me/app, git: {}}\n", "p").unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 5), "{error}");
    assert!(error.message().contains("has no `git`"), "{error}");
    let error = Allowlist::from_yaml("deny:\n  - a.example\n  - 7\n", "p").unwrap_err();
    assert_eq!((error.line(), error.column()), (3, 5), "{error}");
    let error = Allowlist::from_yaml("deny:\n  - {host: a.example, path: x}\n", "p").unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 29), "{error}");
}
