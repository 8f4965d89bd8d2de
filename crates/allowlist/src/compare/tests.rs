//! Comparisons of small policies, and of hostile ones.

use super::*;
use crate::host_pattern::HostPattern;
use crate::policy::Allowlist;
use crate::rule::Rule;
use crate::rule::UrlRule;
use crate::vendor_tools::VendorTools;

fn read(text: &str) -> Allowlist {
    Allowlist::from_yaml(text, "policy").unwrap()
}

fn lines(differences: &[Difference]) -> Vec<String> {
    let line = |Difference { rule, example }: &Difference| match example {
        Some(Example { method, url, body: None }) => format!("{rule} {method} {url}"),
        Some(Example { method, url, body: Some(body) }) => format!("{rule} {method} {url} {body:?}"),
        None => format!("{rule} -"),
    };
    differences.iter().map(line).collect()
}

/// All that differs, as text.
fn compared(old: &str, new: &str) -> Vec<String> {
    let comparison = read(old).compare(&read(new));
    let lists = [
        ("allowed", &comparison.newly_allowed),
        ("blocked", &comparison.newly_blocked),
        ("denied", &comparison.newly_denied),
        ("not denied", &comparison.no_longer_denied),
    ];
    let mut all: Vec<String> = lists
        .iter()
        .flat_map(|(name, list)| lines(list).into_iter().map(move |line| format!("{name} {line}")))
        .collect();
    all.extend(comparison.undecided.iter().map(|rule| {
        format!(
            "undecided {} {} {:?}",
            if rule.allows { "allowed" } else { "blocked" },
            rule.rule,
            rule.reason
        )
    }));
    all
}

fn url(host: &str, path: &str, rest: &str) -> String {
    format!("url_prefixes: [{{host: {host}, path: '{path}'{rest}}}]")
}

#[test]
fn policies_that_differ_in_one_detail_differ() {
    let git = "{host: a.b, path: /r, git: {push: [refs/heads/*]}}";
    for (old, new, expected) in [
        // Every character of a host counts.
        (
            "domains: [api-1.example]".to_owned(),
            "domains: ['api-[12].example']".to_owned(),
            vec!["allowed domains[0]: api-[12].example GET https://api-2.example/"],
        ),
        (
            "domains: ['a.[-1]']".to_owned(),
            "domains: ['a.1x', 'a.[1-]x', 'a.[-1]']".to_owned(),
            vec!["allowed domains[1]: a.[1-]x GET https://a.-x/"],
        ),
        // Rules ignore the case of methods, git does not.
        (
            format!("url_prefixes: [{git}]"),
            format!("url_prefixes: [{git}, {{host: a.b, path: '/r/git-upload-pack', methods: [POST]}}]"),
            vec!["allowed url_prefixes[1]: a.b/r/git-upload-pack post https://a.b/r/git-upload-pack"],
        ),
        // A rule of `deny` does not hide others.
        (
            "deny: [{host: a.b, path: /x*}]".to_owned(),
            "{deny: [{host: a.b, path: /x*}], domains: [a.b]}".to_owned(),
            vec!["allowed domains[0]: a.b GET https://a.b/"],
        ),
        (
            "deny: [{host: a.b, methods: [GET]}]".to_owned(),
            "{deny: [{host: a.b, methods: [GET]}], domains: [a.b]}".to_owned(),
            vec!["allowed domains[0]: a.b HEAD https://a.b/"],
        ),
        ("deny: [a.b]".to_owned(), "{deny: [a.b], domains: [a.b]}".to_owned(), vec![]),
        (
            "{deny: [{host: a.b, path: /x*}]}".to_owned(),
            format!("{{deny: [{{host: a.b, path: /x*}}], {}}}", url("a.b", "/x/y", "")),
            vec![],
        ),
        // Pushes of which only the body differs.
        (
            format!("url_prefixes: [{git}]"),
            "url_prefixes: [{host: a.b, path: /r, git: {push: [refs/heads/*], force: true}}]".to_owned(),
            vec![
                "allowed url_prefixes[0]: a.b/r POST https://a.b/r/git-receive-pack Force(\"refs/heads/a\")",
            ],
        ),
        (
            format!("url_prefixes: [{git}]"),
            "domains: [a.b]".to_owned(),
            vec!["allowed domains[0]: a.b HEAD https://a.b/"],
        ),
        // Pushes in other spellings are pushes.
        (
            "domains: [a.b]".to_owned(),
            format!("{{domains: [a.b], url_prefixes: [{git}]}}"),
            vec!["blocked domains[0]: a.b HEAD https://a.b/git-receive-pack"],
        ),
        // Control characters that queries may contain.
        (
            url("a.b", "/x[?]*", ""),
            "url_prefixes: [{host: a.b, path: \"/x[?][!-\\x7f]*\"}]".to_owned(),
            vec!["blocked url_prefixes[0]: a.b/x[?]* GET https://a.b/x?"],
        ),
        (
            url("a.b", "/x[?]a", ""),
            "url_prefixes: [{host: a.b, path: '/x[?]a'}, {host: a.b, path: \"/x[?][a\\x85]\"}]".to_owned(),
            vec!["allowed url_prefixes[1]: a.b/x[?][a\u{85}] GET https://a.b/x?\u{85}"],
        ),
        // Order, duplicates and covered rules make no difference.
        ("domains: [a.b, c.d]".to_owned(), "domains: [c.d, a.b, a.b]".to_owned(), vec![]),
        ("domains: ['*.b']".to_owned(), "{domains: ['*.b', 'a.b', '?.b']}".to_owned(), vec![]),
        (
            url("a.b", "/[ab]", ""),
            "url_prefixes: [{host: a.b, path: /a}, {host: a.b, path: /b}]".to_owned(),
            vec![],
        ),
        (url("a.b", "/x", ", methods: [get]"), url("a.b", "/x", ", methods: [GET]"), vec![]),
        ("{}".to_owned(), "domains: [localhost, '*.localhost']".to_owned(), vec![]),
        // Presets are stricter than a policy's own rules.
        (
            "presets: [google]".to_owned(),
            "url_prefixes: [{host: generativelanguage.googleapis.com, path: '/v1*/models*', methods: [GET]}]"
                .to_owned(),
            vec![
                "allowed url_prefixes[0]: generativelanguage.googleapis.com/v1*/models* GET \
                 https://generativelanguage.googleapis.com/v1?/models",
            ],
        ),
        // An address, by plain HTTP.
        (
            "{}".to_owned(),
            "domains: [10.0.0.1]".to_owned(),
            vec!["allowed domains[0]: 10.0.0.1 GET http://10.0.0.1/"],
        ),
        (
            "{domains: [10.0.0.1], deny: ['10.*']}".to_owned(),
            "{domains: [10.0.0.1]}".to_owned(),
            vec!["not denied deny[0]: 10.* GET http://10.0.0.1/"],
        ),
    ] {
        let found = compared(&old, &new);
        let holds = if expected.is_empty() {
            found.is_empty()
        } else {
            expected.iter().all(|line| found.iter().any(|f| f == line))
        };
        assert!(holds, "{old}\n{new}\nfound {found:#?}\nexpected {expected:#?}");
        let same = compared(&new, &new);
        assert!(same.is_empty(), "{new}: {same:?}");
    }
}

/// The work is bounded by steps, not by a clock, so this test ends on any machine.
#[test]
fn large_and_hostile_policies_end_undecided_at_worst() {
    let hosts = |part: &str| {
        let host = |at| HostPattern::new(&format!("h{at}.{part}.example")).unwrap();
        Allowlist::new((0..10_000).map(|at| Rule::from(host(at))))
    };
    let comparison = hosts("a").compare(&hosts("b"));
    assert_eq!((comparison.newly_allowed.len(), comparison.newly_blocked.len()), (10_000, 10_000));
    assert!(comparison.undecided.is_empty());

    let stars = |name: &str| {
        let pattern = |at| HostPattern::new(&format!("*{name}{at}*")).unwrap();
        Allowlist::new((0..40).map(|at| Rule::from(pattern(at))))
    };
    let paths = |name: &str| {
        let rule = |at| UrlRule::new("a.example", &format!("/*{name}{at}*"), []).unwrap();
        Allowlist::new((0..40).map(|at| Rule::from(rule(at))))
    };
    // Many characters, and many rules for many hosts.
    let letters = |first: u32| {
        let path = |at| {
            (0..2_000_u32)
                .filter_map(|letter| char::from_u32(first + at * 2_000 + letter))
                .collect::<String>()
        };
        Allowlist::new(
            (0..10_u32)
                .map(|at| Rule::from(UrlRule::new("a.example", &format!("/{}", path(at)), []).unwrap())),
        )
    };
    let everywhere = |name: &str| {
        let rule = |at| Rule::from(UrlRule::new("*", &format!("/{name}{at}"), []).unwrap());
        let host = |at| Rule::from(HostPattern::new(&format!("h{at}.example")).unwrap());
        Allowlist::new((0..2_000).map(rule).chain((0..500).map(host)))
    };
    // Long lists within policies and rules.
    let vendors = |name: &str| {
        let pattern = |at| HostPattern::new(&format!("llm{at}.*")).unwrap();
        let tools = VendorTools { hosts: (0..5_000).map(pattern).collect(), ..VendorTools::default() };
        hosts(name).with_vendor_tools(tools)
    };
    let methods = |step: usize| {
        let methods: Vec<String> = (0..5_000)
            .step_by(step)
            .map(|at| format!("M-{at:b}").replace('0', "A").replace('1', "B"))
            .collect();
        let methods = methods.iter().map(String::as_str);
        Allowlist::new([Rule::from(UrlRule::new("a.example", "/a", methods).unwrap())])
    };
    for (old, new) in [
        (letters(0x4e00), letters(0xac00)),
        (everywhere("a"), everywhere("b")),
        (vendors("a"), vendors("b")),
        (methods(2), methods(3)),
    ] {
        assert!(!old.compare(&new).is_same());
    }
    for (old, new) in [(stars("a"), stars("b")), (paths("a"), paths("b"))] {
        let comparison = old.compare(&new);
        assert!(!comparison.is_same() && comparison.undecided.iter().all(|u| u.reason == Doubtful::TooLarge));
        let listed = comparison.newly_allowed.len() + comparison.newly_blocked.len();
        assert_eq!(listed + comparison.undecided.len(), 80, "each rule is listed or undecided");
    }
}

#[test]
fn policies_that_differ_for_one_spelling_are_never_the_same() {
    let pair = |denied: &str, allowed: &str| {
        let deny = format!("deny: [{{host: a.b, path: '{denied}'}}]");
        (deny.clone(), format!("{{{deny}, url_prefixes: [{{host: a.b, path: '{allowed}'}}]}}"))
    };
    let vendor = "domains: [api.openai.com]";
    let push = |host: &str, path: &str| {
        format!("url_prefixes: [{{host: '{host}', path: '{path}', git: {{push: ['*'], force: true}}}}]")
    };
    for (old, new) in [
        // A reading joins `//` before it drops a `/` at the end.
        pair("/*/b", "/*/b/"),
        pair("/x/*/a", "/x/*/a/"),
        pair("/a[?]x=", "/a[?]x=/"),
        // The body of a push decides where vendor tools are refused otherwise.
        (vendor.to_owned(), format!("{{{vendor}, {}}}", push("api.openai.com", "/r"))),
        (vendor.to_owned(), format!("{{{vendor}, {}}}", push("*.openai.com", "/r"))),
        (vendor.to_owned(), format!("{{{vendor}, {}}}", push("eu.*", "/r"))),
        (
            "domains: ['*.anthropic.com']".to_owned(),
            format!("{{domains: ['*.anthropic.com'], {}}}", push("*.anthropic.com", "/api/oauth/*")),
        ),
        (
            "vendor_tools: {hosts: ['llm.*']}".to_owned(),
            format!("{{vendor_tools: {{hosts: ['llm.*']}}, {}}}", push("llm.[a-c]", "/r")),
        ),
    ] {
        let comparison = read(&old).compare(&read(&new));
        assert!(
            !comparison.newly_allowed.is_empty() || !comparison.undecided.is_empty(),
            "{old}: {comparison:?}"
        );
    }
}
