//! Changes to texts.

use proptest::prelude::*;

use super::*;

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn with(text: &str, added: &[&str]) -> String {
    PolicyText::read(text, "p.yaml").unwrap().with(&[], &rules(added)).unwrap().text
}

fn without(text: &str, removed: &[&str]) -> String {
    let file = PolicyText::read(text, "p.yaml").unwrap();
    file.changed(&less(&file.policy, &rules(removed))).unwrap().text
}

fn less(policy: &Allowlist, removed: &[Rule]) -> Allowlist {
    let kept = policy.own_rules().iter().filter(|own| !removed.contains(own));
    policy.with_own_rules(kept.cloned().collect())
}

#[test]
fn allowed_and_denied_rules_change_both_lists() {
    let change =
        |text: &str, change| PolicyText::read(text, "p.yaml").unwrap().with_change(&change).unwrap().text;
    let allowing = |text: &str, rule: &str| change(text, RuleChange::Allow(rule.parse().unwrap()));
    let denying = |text: &str, rule: &str| change(text, RuleChange::Deny(rule.parse().unwrap()));
    for (text, rule, expected) in [
        ("", "a.b", "deny:\n  - a.b\n"),
        ("deny: [x.y]\n", "GET a.b/c", "deny: [x.y, {host: a.b, path: /c, methods: [GET]}]\n"),
        ("deny: [a.b]\n", "a.b", "deny: [a.b]\n"),
        (
            "deny: [{host: a.b, path: /c/}]\n",
            "a.b/c/*",
            "deny: [{host: a.b, path: /c/}, {host: a.b, path: \"/c/*\"}]\n",
        ),
        ("domains: ['*.b', a.b]\n", "a.b", "domains: ['*.b', a.b]\ndeny:\n  - a.b\n"),
    ] {
        assert_eq!(denying(text, rule), expected, "{text}");
    }
    for (text, rule, expected) in [
        ("deny: [a.b, x.y]\n", "a.b", "deny: [x.y]\ndomains:\n  - a.b\n"),
        ("deny: [a.b/c]\n".replace("a.b/c", "'*.b'").as_str(), "a.b", "deny: ['*.b']\ndomains:\n  - a.b\n"),
        (
            "deny:\n  - {host: a.b, path: /c}\ndomains: ['*.b']\n",
            "a.b",
            "deny:\n  - {host: a.b, path: /c}\ndomains: ['*.b']\n",
        ),
        // The rule of `deny` forbids more than this.
        (
            "deny: [{host: a.b, path: /c, methods: [GET]}]\ndomains: [a.b]\n",
            "a.b/c",
            "deny: [{host: a.b, path: /c, methods: [GET]}]\ndomains: [a.b]\n",
        ),
        // An allowing wildcard covers no addresses, one of `deny` does.
        ("deny: ['10.0.0.*']\n", "*", "deny: ['10.0.0.*']\ndomains:\n  - \"*\"\n"),
    ] {
        assert_eq!(allowing(text, rule), expected, "{text}");
    }
    let restored = change("deny: [a.b, x.y]\n", RuleChange::Restore("a.b".parse().unwrap()));
    assert_eq!(restored, "deny: [x.y]\n");
    let file = PolicyText::read("{\"domains\": [\"a.b\"]}", "p.json").unwrap();
    let denied = file.with_change(&RuleChange::Deny("x.y".parse().unwrap())).unwrap();
    assert_eq!(denied.as_str(), r#"{"deny": ["x.y"], "domains": ["a.b"]}"#);
    assert_eq!(denying("{}", "x.y"), r#"{"deny": ["x.y"]}"#);
    let file = PolicyText::read("{\"deny\": [\"x.y\"]}", "p.json").unwrap();
    let denied = file.with_change(&RuleChange::Deny("a.b/c".parse().unwrap())).unwrap();
    assert_eq!(denied.as_str(), r#"{"deny": ["x.y", {"host":"a.b","path":"/c"}]}"#);
}

#[test]
fn preset_is_added_to_its_list() {
    let github = Preset::named("github").unwrap();
    for (text, expected) in [
        ("domains: [a.b]\n", "domains: [a.b]\npresets:\n  - github\n"),
        ("presets: [anthropic] # ours\n", "presets: [anthropic, github] # ours\n"),
        ("presets:\n  - github\n", "presets:\n  - github\n"),
    ] {
        let file = PolicyText::read(text, "p.yaml").unwrap();
        assert_eq!(file.with(&[github], &[]).unwrap().text, expected, "{text}");
    }
    let file = PolicyText::read("{\"presets\": [\"openai\"]}", "p.json").unwrap();
    assert_eq!(file.with(&[github], &[]).unwrap().text, "{\"presets\": [\"openai\", \"github\"]}");
}

#[test]
fn rule_has_its_position() {
    let text = "deny: [x.y]\ndomains:\n  - a.b\nurl_prefixes:\n  - {host: a.b}\n  - {host: c.d}\npresets: [github]\n";
    let file = PolicyText::read(text, "p.yaml").unwrap();
    let policy = file.policy();
    let place = file.places();
    let shown = |rule: &Match| place(rule).map(|place| place.to_string());
    let own = policy.places().filter(|(rule, _)| rule.preset.is_none());
    let places: Vec<_> = policy.denied_places().chain(own).filter_map(|(rule, _)| shown(&rule)).collect();
    assert_eq!(places, ["p.yaml:1:8", "p.yaml:3:5", "p.yaml:5:5", "p.yaml:6:5"]);
    let preset = policy.places().find(|(rule, _)| rule.preset.is_some()).unwrap().0;
    assert_eq!(shown(&preset), None);
}

#[test]
fn added_rule_is_at_the_end_of_its_list() {
    for (text, added, expected) in [
        ("", "a.b", "domains:\n  - a.b\n"),
        ("# ours", "a.b", "# ours\ndomains:\n  - a.b\n"),
        ("domains: []", "a.b", "domains: [a.b]"),
        ("domains: [ x.y ] # c\n", "a.b", "domains: [ x.y, a.b ] # c\n"),
        ("domains: [x.y,]\n", "a.b", "domains: [x.y, a.b]\n"),
        (
            "domains: ['x.y', \"z,].y\\\"\"]\n".replace("z,].y\\\"", "z.y").as_str(),
            "a.b",
            "domains: ['x.y', \"z.y\", a.b]\n",
        ),
        ("domains:\n- x.y\nbudget: {}\n", "a.b", "domains:\n- x.y\n- a.b\nbudget: {}\n"),
        ("domains:\n  - x.y # it's\n\n  # end\n", "a.b", "domains:\n  - x.y # it's\n  - a.b\n\n  # end\n"),
        ("domains:\n  - x.y", "a.b", "domains:\n  - x.y\n  - a.b\n"),
        (
            "domains: [x.y]\n",
            "GET a.b/c",
            "domains: [x.y]\nurl_prefixes:\n  - {host: a.b, path: /c, methods: [GET]}\n",
        ),
        (
            "url_prefixes:\n  -   host: x.y\n      # inside\n      path: /z\n\ndomains: [q.r]\n",
            "a.b/c",
            "url_prefixes:\n  -   host: x.y\n      # inside\n      path: /z\n  -   {host: a.b, path: /c}\n\ndomains: [q.r]\n",
        ),
        (
            "url_prefixes: [{host: x.y, methods: [GET]}]\n",
            "a.b/c",
            "url_prefixes: [{host: x.y, methods: [GET]}, {host: a.b, path: /c}]\n",
        ),
        ("domains: [\n  x.y, # one, ]\n  z.y\n]\n", "a.b", "domains: [\n  x.y, # one, ]\n  z.y, a.b\n]\n"),
        ("\u{feff}domains: [x.y]\n", "a.b", "\u{feff}domains: [x.y, a.b]\n"),
    ] {
        assert_eq!(with(text, &[added]), expected, "{text}");
    }
    assert_eq!(
        with("presets: [github]\n", &["GET a.b/c", "x.y", "z.y"]),
        "presets: [github]\ndomains:\n  - x.y\n  - z.y\nurl_prefixes:\n  - {host: a.b, path: /c, methods: [GET]}\n"
    );
}

#[test]
fn removed_rule_is_removed_with_its_lines() {
    for (text, removed, expected) in [
        ("domains: [a.b]\n", "a.b", "domains: []\n"),
        ("domains: [a.b, x.y]\n", "a.b", "domains: [x.y]\n"),
        ("domains: [x.y, a.b]\n", "a.b", "domains: [x.y]\n"),
        ("domains: [x.y, a.b, z.y, a.b]\n", "a.b", "domains: [x.y, z.y]\n"),
        ("domains:\n  # one\n  - x.y\n  - a.b # two\n", "a.b", "domains:\n  # one\n  - x.y\n"),
        ("domains: # all\n  - a.b\nbudget: {}\n", "a.b", "domains: [] # all\nbudget: {}\n"),
        (
            "url_prefixes:\n  - host: a.b\n    path: /c\n  # next\n  - {host: x.y}\n",
            "a.b/c",
            "url_prefixes:\n  # next\n  - {host: x.y}\n",
        ),
        ("domains: [x.y]\n", "a.b", "domains: [x.y]\n"),
    ] {
        assert_eq!(without(text, &[removed]), expected, "{text}");
    }
}

#[test]
fn change_that_is_impossible_in_place_is_an_error_with_the_lines() {
    for text in ["{}", "{domains: [x.y]}\n", "domains: [x.y]\n...\n", "domains: &d\n  - x.y\n"] {
        let file = PolicyText::read(text, "p.yaml").unwrap();
        match file.with(&[], &rules(&["a.b/c"])) {
            Ok(file) => assert!(file.policy().rules().contains(&rules(&["a.b/c"])[0]), "{text}"),
            Err(error) => {
                let expected = "\nadd to `url_prefixes`:\n  - {host: a.b, path: /c}";
                assert!(error.to_string().ends_with(expected), "{text}: {error}");
            }
        }
    }
}

#[test]
fn json_stays_json() {
    let file = PolicyText::read("{\"domains\": [\"x.y\"], \"url_prefixes\": []}", "p.json").unwrap();
    let file = file.with(&[], &rules(&["a.b", "GET a.b/c"])).unwrap();
    assert_eq!(
        file.as_str(),
        r#"{"domains": ["x.y", "a.b"], "url_prefixes": [{"host":"a.b","path":"/c","methods":["GET"]}]}"#
    );
}

proptest! {
    /// For every policy, a change of its text has the intended meaning or is refused, and reverting
    /// it restores the policy.
    #[test]
    fn change_has_the_intended_meaning(
        lines in proptest::collection::vec(
            prop_oneof![
                Just("domains:"), Just("domains: [a.b, 'c.d']"), Just("url_prefixes:"), Just("  - a.b"), Just("- c.d # x"),
                Just("  - host: a.b"), Just("    path: \"/x, ]y\""), Just("  - {host: a.b, path: /x}"), Just("# c"), Just(""),
                Just("deny:"), Just("deny: ['*.b', {host: a.b, path: /x}]"), Just("url_prefixes: [{host: x.y}, # z"), Just("  {host: z}]"), Just("presets: [github]"),
            ],
            0..6,
        ),
        added in prop_oneof![Just("a.b"), Just("new.example"), Just("GET a.b/x"), Just("POST new.example/x*")],
    ) {
        if let Ok(file) = PolicyText::read(&lines.join("\n"), "p.yaml") {
            let rules = rules(&[added]);
            if let Ok(more) = file.with(&[], &rules) {
                prop_assert!(more.policy().own_rules().contains(&rules[0]));
                if let Ok(less) = more.changed(&less(&more.policy, &rules)) {
                    prop_assert!(!less.policy().own_rules().contains(&rules[0]));
                }
            }
            if let Ok(denied) = file.with_change(&RuleChange::Deny(rules[0].clone())) {
                prop_assert!(denied.policy().denied().iter().any(|denied| denied.covers(&rules[0])));
                if let Ok(allowed) = denied.with_change(&RuleChange::Allow(rules[0].clone())) {
                    prop_assert!(!allowed.policy().denied().contains(&rules[0]));
                }
            }
        }
    }
}

#[test]
fn warning_has_its_position() {
    let places = |text: &str, file: &str| -> Vec<String> {
        let file = PolicyText::read(text, file).unwrap();
        let warnings = file.lint().unwrap();
        warnings
            .iter()
            .map(|(location, warning)| format!("{location}: {}", &warning.message()[..6]))
            .collect()
    };
    let text = "# ours\ndomains:\n  - a.example\n  - '*'\nurl_prefixes:\n  - {host: b.example, path: /x/}\n";
    assert_eq!(
        places(text, "p.yaml"),
        ["p.yaml:3:5: `a.exa", "p.yaml:4:5: `*` al", "p.yaml:6:5: `/x/` ", "p.yaml:6:5: `domai"]
    );
    assert_eq!(places("{\"domains\": [\"*\"]}", "p.json"), ["p.json:1:14: `*` al"]);
    assert_eq!(places("domains: [a.example]\nvendor_tools: {mcp: any}\n", "p.yaml"), ["p.yaml:2:15: `vendo"]);
    assert_eq!(places("", "p.yaml"), ["p.yaml:1:1: the po"]);
    assert_eq!(places("domains: [a.example]", "p.yaml"), [""; 0]);
}
