//! Policies within others: heads, bodies, and what stays judged.

use super::*;
use crate::body_check::Admitted;
use crate::body_check::BodyCheck;
use crate::body_check::Step;
use crate::learn::LeftOut;
use crate::reason::Reason;
use crate::rule::Rule;
use crate::vendor_tools::VendorTool;

fn policy(yaml: &str) -> Allowlist {
    Allowlist::from_yaml(yaml, "policy.yaml").unwrap()
}

fn within(outer: &str, inner: &str) -> Allowlist {
    policy(inner).within("/etc/p.yaml", policy(outer))
}

fn denial(policy: &Allowlist, url: &str) -> Denial {
    match policy.judge("GET", url) {
        Decision::Deny(denial) => denial,
        decision => panic!("{url}: {decision:?}"),
    }
}

#[test]
fn request_is_allowed_if_every_policy_allows_it() {
    let user = policy("domains: [a.example, b.example, c.example]");
    let both = within(
        "domains: ['*.example']\ndeny: [b.example]",
        "domains: [a.example, b.example, d.example, e.test]",
    )
    .within("~/p.yaml", user);
    assert!(both.judge("GET", "https://a.example/").is_allowed());
    for (url, by) in [
        ("https://b.example/", Some("/etc/p.yaml")),
        ("https://d.example/", Some("~/p.yaml")),
        ("https://e.test/", Some("/etc/p.yaml")),
        ("https://c.example/", None),
    ] {
        let denial = denial(&both, url);
        match by {
            Some(document) => {
                assert_eq!((denial.reason(), denial.denied_by()), (Reason::OuterPolicy, None), "{url}");
                let message = denial.message_naming("policy.yaml");
                assert!(message.starts_with(&format!("refused by {document}: ")), "{message}");
                assert!(
                    message.matches(document).count() == 2 && !message.contains("policy.yaml "),
                    "{message}"
                );
            }
            None => assert_eq!(denial.reason(), Reason::Host, "{url}"),
        }
    }
    // What the client must change is not the operator's matter.
    assert_eq!(denial(&both, "https://a.example:8443/").reason(), Reason::Port);
}

#[test]
fn outer_policy_cannot_be_answered_learnt_or_opened() {
    let inner = policy("domains: [a.example]");
    let both = within(
        "domains: [a.example, b.example]\ndeny: [{host: b.example, path: /x}]",
        "domains: [a.example]",
    );
    let request = |url: &str| crate::judge::read("GET", url.as_bytes()).unwrap();
    for (url, left_out) in [
        ("https://b.example/y", Ok(true)),
        ("https://b.example/x", Err(LeftOut::OuterPolicy)),
        ("https://c.example/", Err(LeftOut::OuterPolicy)),
    ] {
        let request = request(url);
        assert_eq!(both.missing_rule(&request, true).map(|rule| rule.is_some()), left_out, "{url}");
        assert_eq!(both.stays_judged(&request), left_out.is_err(), "{url}");
        // Without it, all of them can be.
        assert!(inner.missing_rule(&request, true).unwrap().is_some() && !inner.stays_judged(&request));
    }
    // Changes of the inner policy keep it.
    let everything: Rule = "*".parse().unwrap();
    for changed in [
        both.clone().with_rules([everything.clone()]),
        both.clone().allowing(&everything),
        both.clone().denying(&"z.example".parse().unwrap()).allowing(&everything),
        policy("domains: ['*']").within_all(both.outer().to_vec()),
    ] {
        assert_eq!(denial(&changed, "https://c.example/").reason(), Reason::OuterPolicy);
        assert!(changed.judge("GET", "https://b.example/y").is_allowed());
        assert_eq!(changed.clone().within_all(both.outer().to_vec()), changed);
        assert_eq!(serde_json::from_str::<Allowlist>(&changed.to_json()).unwrap(), changed);
        let refused = Allowlist::from_json(&changed.to_json(), "policy.json").unwrap_err();
        assert!(refused.message().contains("unknown key `within`"), "{refused}");
    }
}

#[test]
fn policy_within_very_many_others_is_not_read() {
    let read = |count: usize| {
        let outer = (0..count).map(|at| OuterPolicy::new(at.to_string(), Allowlist::default()));
        let json = Allowlist::default().within_all(outer).to_json();
        serde_json::from_str::<Allowlist>(&json).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(read(100), Ok(()), "the control");
    assert!(read(101).unwrap_err().contains("within at most 100 others"));
}

#[test]
fn headers_are_limited_where_an_outer_policy_needs_it() {
    let host = HostName::from_wire(b"a.example").unwrap();
    let inner = policy("domains: [a.example]");
    assert!(!inner.has_method_rules_for(&host) && !inner.has_path_rules_for(&host));
    for outer in [
        "url_prefixes: [{host: a.example, path: /x, methods: [GET]}]",
        "domains: [a.example]\ndeny: [{host: a.example, path: /x}]",
    ] {
        let both = inner.clone().within("p", policy(outer));
        assert!(both.has_method_rules_for(&host) && both.has_path_rules_for(&host), "{outer}");
        assert!(both.denies_paths_of(&host), "{outer}");
    }
}

#[test]
fn lowest_budget_applies() {
    let both = within("budget: {requests: 5, sent: 10}", "budget: {requests: 9, received: 7}");
    let budget = Budget { requests: Some(5), sent: Some(10), received: Some(7), ..Budget::default() };
    assert_eq!(both.budget(), budget);
}

fn body_check(policy: &Allowlist, url: &str) -> BodyCheck {
    match policy.judge("POST", url) {
        Decision::NeedsBody(check) => check,
        decision => panic!("{url}: {decision:?}"),
    }
}

#[test]
fn push_must_be_allowed_by_every_policy() {
    const URL: &str = "https://git.example/r.git/git-receive-pack";
    let rule = |refs: &str, force: bool| {
        format!("url_prefixes: [{{host: git.example, path: /r, git: {{push: [{refs}], force: {force}}}}}]")
    };
    let push = |name: &str, old: &str| {
        let line = format!("{old} {} {name}\0 report-status\n", "b".repeat(40));
        format!("{:04x}{line}0000PACK", line.len() + 4)
    };
    let (new, old) = ("0".repeat(40), "a".repeat(40));
    let result = |policy: &Allowlist, body: &str| body_check(policy, URL).advance(body.as_bytes(), true);
    let both = within(&rule("refs/heads/a*", true), &rule("refs/heads/*b", false));
    assert!(matches!(result(&both, &push("refs/heads/ab", &new)), Ok(Step::Allow(_))));
    let denied = result(&both, &push("refs/heads/cb", &new)).unwrap_err();
    assert_eq!((denied.reason(), denied.document()), (Reason::RefNotAllowed, Some("/etc/p.yaml")));
    assert!(denied.message().contains("/etc/p.yaml") && denied.push_report().is_some());
    let denied = result(&both, &push("refs/heads/ac", &new)).unwrap_err();
    assert_eq!((denied.reason(), denied.document()), (Reason::RefNotAllowed, None));
    // Either demands the proof that no commit is lost.
    let fast_forwards = |policy: &Allowlist| match result(policy, &push("refs/heads/ab", &old)) {
        Ok(Step::Allow(Admitted { fast_forwards, .. })) => {
            fast_forwards.map_or(0, |pushes| pushes.updates.len())
        }
        other => panic!("{other:?}"),
    };
    for (outer, inner, updates) in [(true, true, 0), (true, false, 1), (false, true, 1), (false, false, 1)] {
        let both = within(&rule("refs/heads/*", outer), &rule("refs/heads/*", inner));
        assert_eq!(fast_forwards(&both), updates, "{outer} {inner}");
    }
    // The denial names the policy that demands it.
    for (outer, inner, document) in [(false, true, Some("/etc/p.yaml")), (false, false, None)] {
        let both = within(&rule("refs/heads/*", outer), &rule("refs/heads/*", inner));
        let Ok(Step::Allow(admitted)) = result(&both, &push("refs/heads/ab", &old)) else {
            panic!("{document:?}")
        };
        let pushes = admitted.fast_forwards.unwrap();
        let denial = pushes.unproven(&pushes.updates[0]);
        assert_eq!((denial.reason(), denial.document()), (Reason::RefLost, document));
        assert!(denial.push_report().is_some());
    }
    // A whole host inside does not open what the outer policy judges, and the reverse.
    for both in [
        within(&rule("refs/heads/a*", true), "domains: [git.example]"),
        within("domains: [git.example]", &rule("refs/heads/a*", true)),
    ] {
        let mut check = body_check(&both, URL);
        let body = push("refs/heads/ab", &new);
        assert_eq!(check.advance(&body.as_bytes()[..20], false).unwrap(), Step::More);
        assert!(matches!(check.advance(body.as_bytes(), false), Ok(Step::Allow(_))));
        assert!(result(&both, &push("refs/heads/cb", &new)).is_err());
    }
}

#[test]
fn vendor_tool_must_be_allowed_by_every_policy() {
    const URL: &str = "https://api.anthropic.com/v1/messages";
    const BODY: &[u8] = br#"{"model":"m","tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"code_execution_20250522","name":"code_execution"}]}"#;
    let rules = |tools: &str| format!("domains: [api.anthropic.com]\nvendor_tools: {{{tools}}}");
    let removed = |outer: &str, inner: &str| {
        let both = within(&rules(outer), &rules(inner));
        match body_check(&both, URL).advance(BODY, true) {
            Ok(Step::Allow(Admitted { removed, body, .. })) => {
                assert_eq!(body.is_some(), !removed.is_empty());
                let body = body.unwrap_or_else(|| BODY.to_vec());
                let has = |name: &[u8]| body.windows(name.len()).any(|part| part == name);
                assert_eq!(has(b"web_search_"), !removed.contains(&VendorTool::WebSearch));
                assert_eq!(has(b"code_execution_"), !removed.contains(&VendorTool::CodeExecution));
                removed
            }
            other => panic!("{other:?}"),
        }
    };
    let (search, code) = (VendorTool::WebSearch, VendorTool::CodeExecution);
    assert_eq!(removed("web_search: any, code_execution: any", "web_search: any, code_execution: any"), []);
    assert_eq!(removed("web_search: any", "code_execution: any"), [search, code]);
    assert_eq!(removed("web_search: any", "web_search: any, code_execution: any"), [code]);
    assert_eq!(removed("web_search: any, code_execution: any", "web_search: any"), [code]);
    let both = within(&rules("denied: refuse"), &rules("web_search: any, code_execution: any"));
    let denial = body_check(&both, URL).advance(BODY, true).unwrap_err();
    assert_eq!((denial.reason(), denial.document()), (Reason::VendorTool, Some("/etc/p.yaml")));
    // A host that only the outer policy reads.
    let outer = "domains: [llm.example]\nvendor_tools: {hosts: [llm.example]}";
    let both = within(outer, "domains: [llm.example]");
    let request = crate::judge::read("POST", b"https://llm.example/v1/messages").unwrap();
    assert!(both.counts_tokens_of(&request) && both.judges_bodies_of(request.host()));
    assert!(!policy("domains: [llm.example]").counts_tokens_of(&request));
}
