//! Learnt rules, and that they allow no more than they state.

use proptest::prelude::*;

use super::*;

fn asked(text: &str) -> Asked {
    let (text, blocked, answered) = match (text.strip_prefix("BLOCKED "), text.strip_prefix("FAILED ")) {
        (Some(text), _) => (text, true, false),
        (_, Some(text)) => (text, false, false),
        _ => (text, false, true),
    };
    let (method, url) = text.split_once(' ').unwrap();
    Asked { method: method.to_owned(), url: url.to_owned(), count: 1, blocked, answered }
}

fn learn(policy: &str, requests: &[&str]) -> Learnt {
    let policy = Allowlist::from_yaml(policy, "p").unwrap();
    policy.learn(requests.iter().map(|text| asked(text)), &[HostPattern::new("narrow.test").unwrap()])
}

/// The rules, each with the paths that it was generalised from.
fn check(policy: &str, requests: &[&str], expected: &[&str]) {
    let learnt = learn(policy, requests);
    let shown: Vec<String> = learnt
        .rules
        .iter()
        .map(|learnt| match learnt.generalised_from {
            Some(paths) => format!("{} from {paths}", learnt.rule.to_yaml()),
            None => learnt.rule.to_yaml(),
        })
        .collect();
    assert_eq!(shown, expected, "{requests:?}");
}

#[test]
fn few_paths_are_kept() {
    check(
        "",
        &[
            "GET https://a.test/x",
            "HEAD https://a.test/x",
            "GET https://a.test/x",
            "POST https://a.test/x?y=[1]",
        ],
        &[
            "{host: a.test, path: /x, methods: [GET, HEAD]}",
            r#"{host: a.test, path: "/x[?]y=[[]1]", methods: [POST]}"#,
        ],
    );
    check(
        "domains: [a.test]",
        &["GET https://a.test/x", "BLOCKED GET http://b.test/"],
        &["{host: b.test, path: /, methods: [GET]}"],
    );
}

#[test]
fn many_paths_are_merged_by_folder() {
    check(
        "",
        &[
            "GET https://index.test/simple/one/",
            "GET https://index.test/simple/two/",
            "GET https://index.test/files/ab/one-1.0.whl",
            "GET https://index.test/files/cd/two-1.0.whl",
        ],
        &[
            r#"{host: index.test, path: "/files/ab/one-1.0.whl", methods: [GET]}"#.replace('"', "").as_str(),
            "{host: index.test, path: /files/cd/two-1.0.whl, methods: [GET]}",
            r#"{host: index.test, path: "/simple/*", methods: [GET]} from 2"#,
        ],
    );
    let many: Vec<String> = (0..9).map(|number| format!("GET https://a.test/p{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    check("", &many, &[r#"{host: a.test, path: "/*", methods: [GET]} from 9"#]);
    let posts: Vec<String> = many.iter().map(|text| text.replace("GET", "POST")).collect();
    let posts: Vec<&str> = posts.iter().map(String::as_str).collect();
    assert_eq!(learn("", &posts).rules.len(), 9, "bodies carry data out");
    let narrow: Vec<String> = many.iter().map(|text| text.replace("a.test", "narrow.test")).collect();
    let narrow: Vec<&str> = narrow.iter().map(String::as_str).collect();
    assert_eq!(learn("", &narrow).rules.len(), 9, "it gets credentials");
}

#[test]
fn many_queries_are_merged() {
    check(
        "",
        &[
            "GET https://narrow.test/x?a/1",
            "GET https://narrow.test/x?a/2",
            "GET https://narrow.test/x?a/3",
            "GET https://narrow.test/x",
        ],
        &[
            "{host: narrow.test, path: /x, methods: [GET]}",
            r#"{host: narrow.test, path: "/x[?]*", methods: [GET]} from 3"#,
        ],
    );
}

#[test]
fn address_that_answered_gets_a_rule() {
    check("", &["GET http://10.0.0.1/"], &[r#"{host: "10.0.0.1", path: /, methods: [GET]}"#]);
    check("", &["FAILED GET http://internal.test/"], &["{host: internal.test, path: /, methods: [GET]}"]);
}

#[test]
fn very_many_paths_are_merged() {
    let asked = |number: usize| Asked {
        method: "GET".to_owned(),
        url: format!("https://a.test/{}/{}{number}", number % 7, "a/".repeat(number % 20)),
        count: 1,
        blocked: true,
        answered: false,
    };
    let learnt = Allowlist::default().learn((0..50_000).map(asked), &[]);
    let shown: Vec<String> = learnt.rules.iter().map(|learnt| learnt.rule.to_yaml()).collect();
    assert_eq!(shown, [r#"{host: a.test, path: "/*", methods: [GET]}"#]);
    assert_eq!(learnt.rules[0].generalised_from, Some(50_000));
    // A folder is kept where there is one.
    let deep =
        |number: usize| Asked { url: format!("https://a.test/x/{}", "a/".repeat(number)), ..asked(number) };
    let learnt = Allowlist::default().learn((0..200).map(deep), &[]);
    let shown: Vec<String> = learnt.rules.iter().map(|learnt| learnt.rule.to_yaml()).collect();
    assert_eq!(shown.len(), OWN_RULES, "{shown:?}");
    assert!(shown.iter().all(|rule| rule.contains("/x/")), "{shown:?}");
}

#[test]
fn request_that_no_rule_should_allow_is_left_out() {
    use LeftOut::{Address, NeverAllowed, OtherReason, Push};
    for (request, why) in [
        ("BLOCKED GET http://169.254.169.254/latest/meta-data/", Address),
        ("BLOCKED GET http://10.0.0.1/", Address),
        ("FAILED GET http://169.254.169.254/latest/meta-data/", Address),
        ("BLOCKED GET http://metadata.google.internal/", Address),
        ("FAILED GET http://metadata/", Address),
        ("GET http://metadata.google.internal/", Address),
        ("GET http://instance-data.ec2.internal/", Address),
        ("BLOCKED GET https://a.test/../x", NeverAllowed),
        ("CONNECT https://a.test/", NeverAllowed),
        ("G_T https://a.test/", NeverAllowed),
        ("GET https://a.test:8443/", NeverAllowed),
        ("GET https://[::1]/", NeverAllowed),
        ("GET https://localhost/", NeverAllowed),
        ("GET nonsense", NeverAllowed),
        ("POST https://git.test/r.git/git-receive-pack", Push),
        ("BLOCKED POST https://api.openai.com/v1/assistants", OtherReason),
    ] {
        let learnt = learn("", &[request]);
        assert_eq!(learnt.rules, [], "{request}");
        assert_eq!(learnt.left_out, [(asked(request), why)]);
    }
}

fn request() -> impl Strategy<Value = Asked> {
    let url = prop_oneof![
        "https://[ab]\\.test/[xy]{0,2}(/[xyz]{1,2}){0,3}/?(\\?[q&=/]{0,3})?",
        "https?://(a\\.test|narrow\\.test|api\\.openai\\.com)/[a-z*?\\[\\]%2f/.]{0,8}",
        "https?://\\PC{0,12}",
    ];
    (prop_oneof![Just("GET"), Just("HEAD"), Just("POST"), Just("put"), Just("TRACE")], url, any::<bool>())
        .prop_map(|(method, url, blocked)| Asked {
            method: method.to_owned(),
            url,
            count: 1,
            blocked,
            answered: !blocked,
        })
}

proptest! {
    #[test]
    fn learnt_rules_allow_the_requests_and_more_only_if_generalised(
        log in proptest::collection::vec(request(), 0..24),
        other in proptest::collection::vec(request(), 0..24),
        policy in prop_oneof![Just(""), Just("domains: [b.test]"), Just("url_prefixes: [{host: a.test, path: '/x*', methods: [GET]}]")],
    ) {
        let policy = Allowlist::from_yaml(policy, "p").unwrap();
        let narrow = [HostPattern::new("narrow.test").unwrap()];
        let learnt = policy.learn(log.clone(), &narrow);
        let allows = |policy: &Allowlist, asked: &Asked| !matches!(policy.judge(&asked.method, &asked.url), Decision::Deny(_));
        let rules = |of: &dyn Fn(&LearntRule) -> bool| {
            let rules = learnt.rules.iter().filter(|rule| of(rule)).map(|learnt| learnt.rule.clone());
            policy.clone().with_rules(rules.collect::<Vec<_>>())
        };
        let (all, exact) = (rules(&|_| true), rules(&|rule| rule.generalised_from.is_none()));
        for asked in &log {
            let left_out = learnt.left_out.iter().any(|(left, _)| left == asked);
            prop_assert!(left_out || allows(&all, asked), "{asked:?}: {learnt:?}");
        }
        let key = |asked: &Asked| read(asked).map(|request| {
            (request.host().to_string(), request.target().for_matching().to_owned(), asked.method.to_ascii_uppercase())
        });
        for asked in &other {
            let known = log.iter().any(|logged| key(logged) == key(asked));
            prop_assert!(known || allows(&exact, asked) == allows(&policy, asked), "{asked:?}: {learnt:?}");
            // Generalised requests have no body, and are not for hosts that get credentials.
            if !known && allows(&all, asked) && !allows(&policy, asked) && asked.url.contains("//narrow.test") {
                prop_assert!(asked.url.contains('?'), "{asked:?}: {learnt:?}");
            }
            if !matches!(asked.method.as_str(), "GET" | "HEAD") && !asked.url.contains('?') && !known {
                prop_assert_eq!(allows(&all, asked), allows(&policy, asked), "{:?}: {:?}", asked, learnt);
            }
        }
        // Writing the rules to a file does not change them.
        let text = crate::PolicyText::read("", "p").unwrap();
        let rules: Vec<Rule> = learnt.rules.iter().map(|learnt| learnt.rule.clone()).collect();
        let text = text.with(&rules).unwrap();
        prop_assert_eq!(text.policy().own_rules(), rules);
    }
}

#[test]
fn reading_below_accepts_public_names_only() {
    for (url, expected) in [
        ("https://a.example/simple", "{host: a.example, path: \"/simple/*\", methods: [GET, HEAD]}"),
        ("http://A.example/debian/", "{host: a.example, path: \"/debian/*\", methods: [GET, HEAD]}"),
        ("https://a.example", "{host: a.example, path: \"/*\", methods: [GET, HEAD]}"),
    ] {
        assert_eq!(Rule::reading_below(url).unwrap().to_yaml(), expected, "{url}");
    }
    // Control: a pattern in it is literal.
    let rule = Rule::reading_below("https://a.example/[x]").unwrap();
    let policy = Allowlist::default().with_rules([rule]);
    assert!(policy.judge("GET", "https://a.example/[x]/y").is_allowed());
    assert!(!policy.judge("GET", "https://a.example/x/y").is_allowed());
    for url in [
        "",
        "a.example",
        "file:///etc/passwd",
        "https://*.example/",
        "https://*/",
        "https://user:word@a.example/",
        "https://a.example:8443/",
        "https://a.example/?q=1",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://2130706433/",
        "https://169.254.169.254/latest/",
        "https://metadata.google.internal/",
        "https://localhost/",
        "https://a.localhost/",
        "https://intern/",
        "https://a.example\n/x",
    ] {
        assert!(Rule::reading_below(url).is_err(), "{url}: {:?}", Rule::reading_below(url));
    }
}
