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

fn learn_up_to(most: LearnStep, policy: &str, requests: &[&str]) -> Learnt {
    let policy = Allowlist::from_yaml(policy, "p").unwrap();
    let narrow = [HostPattern::new("narrow.test").unwrap()];
    policy.learn_up_to(most, requests.iter().map(|text| asked(text)), &narrow)
}

fn learn(policy: &str, requests: &[&str]) -> Learnt {
    learn_up_to(LearnStep::Folder, policy, requests)
}

/// The rules, those that were generalised with their step and the number of paths.
fn shown(learnt: &Learnt) -> Vec<String> {
    let rules = learnt.rules.iter().map(|learnt| match learnt {
        LearntRule { rule, step: LearnStep::Exact, paths: 1, .. } => rule.to_yaml(),
        LearntRule { rule, step, paths, .. } => format!("{} {} from {paths}", rule.to_yaml(), step.as_str()),
    });
    rules.collect()
}

fn check(policy: &str, requests: &[&str], expected: &[&str]) {
    assert_eq!(shown(&learn(policy, requests)), expected, "{requests:?}");
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
fn preset_takes_the_place_of_rules_for_two_paths() {
    let turn = [
        "POST https://api.anthropic.com/v1/messages?beta=true",
        "BLOCKED POST https://api.anthropic.com/v1/messages/count_tokens?beta=true",
        "GET https://api.anthropic.com/v1/files",
        "GET https://github.com/o/r.git/info/refs?service=git-upload-pack",
        "POST https://github.com/o/r.git/git-upload-pack",
    ];
    let learnt = learn("", &turn);
    let presets: Vec<_> = learnt
        .presets
        .iter()
        .map(|learnt| (learnt.preset.name(), learnt.requests, learnt.blocked, learnt.paths))
        .collect();
    assert_eq!(presets, [("anthropic", 2, 1, 2)], "one repository of github.com gets rules of its own");
    let others = [
        "{host: api.anthropic.com, path: /v1/files, methods: [GET]}",
        r#"{host: github.com, path: "/o/r.git/info/refs[?]service=git-upload-pack", methods: [GET]}"#,
        "{host: github.com, path: /o/r.git/git-upload-pack, methods: [POST]}",
    ];
    assert_eq!(shown(&learnt), others);
    let exact = learn_up_to(LearnStep::Exact, "", &turn);
    assert_eq!((exact.presets.len(), exact.rules.len()), (0, 5));
    let known = learn("presets: [anthropic]", &turn);
    assert_eq!((known.presets.len(), shown(&known)), (0, others.map(str::to_owned).to_vec()));
    let policy = Allowlist::default();
    let narrow = [HostPattern::new("api.github.com").unwrap()];
    let two = ["GET https://api.github.com/repos/o/r", "GET https://api.github.com/repos/o/s"];
    let clones = ["GET https://github.com/o/r", "GET https://github.com/o/s"]
        .map(|url| format!("{url}/info/refs?service=git-upload-pack"));
    let clones = [clones[0].as_str(), clones[1].as_str()];
    for requests in [two, clones] {
        let presets = |narrow: &[HostPattern]| policy.learn(requests.map(asked), narrow).presets.len();
        assert_eq!((presets(&narrow), presets(&[])), (0, 1), "a host of it gets credentials");
    }
    let denied = learn("deny: [api.anthropic.com]", &turn);
    assert_eq!((denied.presets.len(), denied.left_out.len()), (0, 3));
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
            r#"{host: index.test, path: "/simple/*", methods: [GET]} folder from 2"#,
        ],
    );
    let many: Vec<String> = (0..9).map(|number| format!("GET https://a.test/p{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    check("", &many, &[r#"{host: a.test, path: "/*", methods: [GET]} folder from 9"#]);
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
            r#"{host: narrow.test, path: "/x[?]*", methods: [GET]} query from 3"#,
        ],
    );
}

#[test]
fn each_step_generalises_as_far_as_it_says() {
    let mut requests: Vec<String> =
        (0..4).map(|at| format!("GET https://a.test/files/{at}?x={at}")).collect();
    requests.extend((0..4).map(|at| format!("GET https://a.test/search?q={at}")));
    requests.push("POST https://a.test/upload".to_owned());
    let narrow = ["narrow.test", "api.openai.com"].map(|host| format!("GET https://{host}/x"));
    requests.extend(narrow);
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let kept = [
        "{host: a.test, path: /upload, methods: [POST]}",
        "{host: api.openai.com, path: /x, methods: [GET]}",
        "{host: narrow.test, path: /x, methods: [GET]}",
    ];
    for (most, expected) in [
        (
            LearnStep::Folder,
            &[
                r#"{host: a.test, path: "/files/*", methods: [GET]} folder from 4"#,
                r#"{host: a.test, path: "/search[?]*", methods: [GET]} query from 4"#,
            ][..],
        ),
        (LearnStep::Host, &[r#"{host: a.test, path: "/*", methods: [GET, HEAD]} host from 8"#]),
    ] {
        assert_eq!(shown(&learn_up_to(most, "", &requests)), [expected, &kept].concat());
    }
    let exact = learn_up_to(LearnStep::Exact, "", &requests);
    assert_eq!(exact.rules.len(), requests.len());
    assert!(exact.rules.iter().all(|learnt| learnt.step == LearnStep::Exact), "{exact:?}");
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
    assert_eq!((learnt.rules[0].step, learnt.rules[0].paths), (LearnStep::Folder, 50_000));
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

/// Host, path with query, and method of a request.
fn parts(asked: &Asked) -> Option<(String, String, String)> {
    let request = read(asked)?;
    let target = request.target().for_matching().to_owned();
    Some((request.host().to_string(), target, asked.method.to_ascii_uppercase()))
}

/// Whether a rule of this step may allow `asked`, given what was logged.
fn explains(step: LearnStep, log: &[Asked], asked: &Asked) -> bool {
    let Some((host, target, method)) = parts(asked) else { return false };
    let path = |target: &str| target.split('?').next().unwrap_or_default().to_owned();
    let logged = || log.iter().filter_map(parts).filter(|(other, ..)| *other == host);
    let reads = |method: &str| matches!(method, "GET" | "HEAD");
    let may_widen = reads(&method) && !["narrow.test", "api.openai.com"].contains(&host.as_str());
    match step {
        LearnStep::Exact => logged().any(|other| other == (host.clone(), target.clone(), method.clone())),
        LearnStep::Query => {
            let mut queries = logged().filter(|(_, other, _)| path(other) == path(&target));
            let same_method = queries.clone().any(|(_, other, by)| by == method && other.contains('?'));
            same_method && target.contains('?') && queries.nth(OWN_QUERIES).is_some()
        }
        LearnStep::Folder => {
            // Two logged paths of which it shares the folder that they have in common.
            let paths: Vec<String> =
                logged().filter(|(.., by)| reads(by)).map(|(_, other, _)| other).collect();
            let common = |one: &str, two: &str| {
                let same = path(one).bytes().zip(path(two).bytes()).take_while(|(a, b)| a == b).count();
                one[..same].rfind('/').map_or(0, |slash| slash + 1)
            };
            let is_below = |one: &String, two: &String| target.starts_with(&one[..common(one, two)]);
            let mut pairs = paths.iter().flat_map(|one| paths.iter().map(move |two| (one, two)));
            may_widen && pairs.any(|(one, two)| one != two && is_below(one, two))
        }
        LearnStep::Host => may_widen && logged().any(|(.., by)| reads(&by)),
    }
}

proptest! {
    #[test]
    fn learnt_rules_allow_the_requests_and_more_only_as_their_step_says(
        log in proptest::collection::vec(request(), 0..24),
        other in proptest::collection::vec(request(), 0..24),
        policy in prop_oneof![Just(""), Just("domains: [b.test]"), Just("url_prefixes: [{host: a.test, path: '/x*', methods: [GET]}]")],
        most in prop_oneof![Just(LearnStep::Exact), Just(LearnStep::Query), Just(LearnStep::Folder), Just(LearnStep::Host)],
    ) {
        let policy = Allowlist::from_yaml(policy, "p").unwrap();
        let narrow = [HostPattern::new("narrow.test").unwrap()];
        let learnt = policy.learn_up_to(most, log.clone(), &narrow);
        let allows = |policy: &Allowlist, asked: &Asked| !matches!(policy.judge(&asked.method, &asked.url), Decision::Deny(_));
        let rules: Vec<Rule> = learnt.rules.iter().map(|learnt| learnt.rule.clone()).collect();
        let all = policy.clone().with_rules(rules.clone());
        for asked in &log {
            let left_out = learnt.left_out.iter().any(|(left, _)| left == asked);
            prop_assert!(left_out || allows(&all, asked), "{asked:?}: {learnt:?}");
        }
        prop_assert!(learnt.rules.iter().all(|rule| rule.step <= most), "{learnt:?}");
        for asked in other.iter().filter(|asked| allows(&all, asked) && !allows(&policy, asked)) {
            let explained = learnt.rules.iter().any(|learnt| {
                allows(&Allowlist::new([learnt.rule.clone()]), asked) && explains(learnt.step, &log, asked)
            });
            prop_assert!(explained, "{asked:?}: {learnt:?}");
        }
        // Writing the rules to a file does not change them.
        let text = crate::PolicyText::read("", "p").unwrap();
        let text = text.with(&[], &rules).unwrap();
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
