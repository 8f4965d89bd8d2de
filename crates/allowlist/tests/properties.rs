//! Properties of whole policies.

use allowlist::Allowlist;
use allowlist::Anywhere;
use allowlist::Decision;
use allowlist::Denied;
use allowlist::GitRule;
use allowlist::HostPattern;
use allowlist::Preset;
use allowlist::Reach;
use allowlist::Reason;
use allowlist::RefPattern;
use allowlist::Rule;
use allowlist::RuleKind;
use allowlist::UrlRule;
use allowlist::VendorTools;
use proptest::prelude::*;

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9_-]{1,8}(\\.[a-z][a-z0-9-]{0,6}){0,3}\\.?",
        "(\\*|[a-z?*]{1,5}|\\[!?[a-z]{1,3}\\])\\.[A-Za-z][a-z]{0,5}",
        "[bmüé日本]{1,4}\\.example",
        Just("true".to_owned()),
        Just("null".to_owned()),
        Just("10.0.0.1".to_owned()),
    ]
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "/[ -~]{0,20}",
        "\\*\\PC{0,12}",
        "/(\\PC|[\\u{85}\\u{2028}\\u{feff}\\t\\n\\r'\": #]){0,12}\\*[\\u{0}-\\u{a0}]{0,6}",
    ]
}

fn policy() -> impl Strategy<Value = Allowlist> {
    let domain = host().prop_filter_map("host", |host| HostPattern::new(&host).ok());
    let domains = proptest::collection::vec(domain.prop_map(Rule::from), 0..4);
    let methods = proptest::collection::vec("[A-Za-z]{1,5}(-[a-z]{1,3})?", 0..3);
    let rule = (host(), path(), methods).prop_filter_map("rule", |(host, path, methods)| {
        UrlRule::new(&host, &path, methods.iter().map(String::as_str)).ok().map(Rule::from)
    });
    let reference = prop_oneof![Just("refs/heads/agent/*".to_owned()), "refs/[a-zé*?]{1,6}"];
    let reference = reference.prop_filter_map("ref", |text| RefPattern::new(&text).ok());
    let push = proptest::collection::vec(reference, 0..3);
    let git = (push, any::<bool>(), any::<bool>()).prop_map(|(push, force, delete)| GitRule {
        push,
        force,
        delete,
    });
    let repository = (host(), path(), git).prop_filter_map("repository", |(host, path, git)| {
        UrlRule::repository(&host, &path, git).ok().map(Rule::from)
    });
    let rule = prop_oneof![rule, repository].boxed();
    let presets = proptest::sample::subsequence(Preset::all().collect::<Vec<_>>(), 0..3);
    let rules = proptest::collection::vec(rule.clone(), 0..4);
    let denied = proptest::collection::vec(rule, 0..2);
    (domains, rules, denied, vendor_tools(), presets).prop_map(
        |(domains, rules, denied, vendor_tools, presets)| {
            let policy = Allowlist::new(rules.into_iter().chain(domains))
                .with_presets(presets)
                .with_vendor_tools(vendor_tools);
            denied.iter().fold(policy, Allowlist::denying)
        },
    )
}

fn vendor_tools() -> impl Strategy<Value = VendorTools> {
    let reach = || prop_oneof![Just(None), Just(Some(Reach::Policy)), Just(Some(Reach::Any))];
    let anywhere = || prop_oneof![Just(None), Just(Some(Anywhere::Any))];
    let denied = prop_oneof![Just(Denied::Remove), Just(Denied::Refuse)];
    let hosts =
        proptest::collection::vec(host().prop_filter_map("host", |host| HostPattern::new(&host).ok()), 0..2);
    (reach(), reach(), reach(), anywhere(), reach(), anywhere(), denied, hosts).prop_map(
        |(web_search, web_fetch, mcp, code_execution, files_by_url, other, denied, hosts)| VendorTools {
            web_search,
            web_fetch,
            mcp,
            code_execution,
            files_by_url,
            other,
            denied,
            hosts,
        },
    )
}

proptest! {
    #[test]
    fn policy_survives_a_round_trip_through_yaml(policy in policy()) {
        let text = policy.to_yaml();
        prop_assert_eq!(Allowlist::from_yaml(&text, "policy.yaml"), Ok(policy), "{}", text);
    }

    #[test]
    fn policy_survives_a_round_trip_through_json(policy in policy()) {
        let text = policy.to_json();
        prop_assert_eq!(Allowlist::from_json(&text, "policy.json"), Ok(policy.clone()), "{}", text);
        prop_assert_eq!(serde_json::from_str::<Allowlist>(&text).unwrap(), policy);
    }

    /// Both formats of a policy lead to the same decision, and every URL gets one.
    #[test]
    fn arbitrary_url_gets_a_decision(
        policy in policy(),
        method in "(GET|post|TRACE|\\PC{0,4})",
        url in prop_oneof!["\\PC{0,40}", "https?://[a-z.:@\\[\\]0-9%]{0,12}/[%.2e5c/;?#a-z]{0,16}"],
    ) {
        let again = Allowlist::from_yaml(&policy.to_yaml(), "policy.yaml").unwrap();
        prop_assert_eq!(again.judge(&method, &url), policy.judge(&method, &url));
    }

    #[test]
    fn arbitrary_bytes_get_a_decision(policy in policy(), url in proptest::collection::vec(any::<u8>(), 0..40)) {
        let url = [b"https://".as_slice(), &url].concat();
        if let Decision::Deny(denial) = policy.judge("GET", &url) {
            prop_assert!(!denial.message().is_empty());
        }
    }

    /// A rule of `deny` takes requests away and gives none, even when the rest of the web is open.
    #[test]
    fn denied_rule_allows_nothing_and_stays_judged(
        policy in policy(),
        (host, path) in (host(), path()),
        method in "(GET|POST)",
        url in prop_oneof![
            "https://(api\\.)?github\\.com/[a-zA-Z/.;%2f-]{0,8}(\\?a=b)?",
            "https?://[a-z.]{0,12}/[%.2e5c/;?#a-z]{0,16}",
        ],
    ) {
        let Ok(rule) = UrlRule::new(&host, &path, []).map(Rule::from) else { return Ok(()) };
        let denying = policy.clone().denying(&rule);
        let allows = |policy: &Allowlist| !matches!(policy.judge(&method, &url), Decision::Deny(_));
        prop_assert!(!allows(&denying) || allows(&policy));
        // Whatever it matches as an allowing rule, it denies.
        if Allowlist::new([rule]).judge("GET", &url).is_allowed() {
            let Decision::Deny(denial) = denying.judge("GET", &url) else { panic!("{url} is allowed") };
            prop_assert_eq!(denial.reason(), Reason::Denied);
        }
    }

    /// A policy within another allows what both allow, also after a trip through JSON.
    #[test]
    fn policy_within_another_allows_what_both_allow(
        (inner, outer) in (policy(), policy()),
        method in "(GET|POST)",
        url in prop_oneof![
            "https?://[a-z.]{0,12}/[%.2e5c/;?#a-z]{0,16}",
            "https://api\\.(openai|anthropic)\\.com/v1/(messages|responses|[a-z/]{0,10})",
            "https://(api\\.)?github\\.com/[a-z/.-]{0,8}/(git-receive-pack|git-upload-pack)",
        ],
    ) {
        let both = inner.clone().within("outer.yaml", outer.clone());
        let decisions = [&inner, &outer].map(|policy| policy.judge(&method, &url));
        let denied = decisions.iter().any(|decision| matches!(decision, Decision::Deny(_)));
        prop_assert_eq!(matches!(both.judge(&method, &url), Decision::Deny(_)), denied);
        prop_assert_eq!(both.judge(&method, &url).is_allowed(), decisions.iter().all(Decision::is_allowed));
        prop_assert_eq!(serde_json::from_str::<Allowlist>(&both.to_json()).unwrap(), both);
    }

    #[test]
    fn presets_and_rules_of_a_run_never_restrict(
        policy in policy(),
        method in "(GET|POST)",
        url in prop_oneof![
            "https://(api\\.)?github\\.com/[a-z/.-]{0,8}/(git-receive-pack|git-upload-pack|info/refs\\?service=git-receive-pack)",
            "https://api\\.(openai|anthropic)\\.com/v1/[a-z/]{0,10}",
        ],
    ) {
        let more = policy.clone().with_presets(Preset::all());
        let allows = |policy: &Allowlist| !matches!(policy.judge(&method, &url), Decision::Deny(_));
        prop_assert!(!allows(&policy) || allows(&more));
        let rule = Rule::from(HostPattern::new("api.openai.com").unwrap());
        prop_assert!(!allows(&more) || allows(&more.clone().with_rules([rule])));
    }

    #[test]
    fn warnings_name_rules_that_exist(policy in policy()) {
        for warning in policy.lint() {
            if let Some((kind, index)) = warning.rule() {
                let count = match kind {
                    RuleKind::Deny => policy.denied().len(),
                    kind => policy.own_rules().iter().filter(|rule| rule.kind() == kind).count(),
                };
                prop_assert!(index < count);
            }
        }
    }
}
