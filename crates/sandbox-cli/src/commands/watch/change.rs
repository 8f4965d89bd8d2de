//! Changes to the policy of a run: the rules that allow a request, and those that deny it.

use allowlist::{Allowlist, Asked, Decision, LearnStep, Rule, RuleChange};

/// The longest rule, in bytes, that the smallest screen shows in full: the user must read all of
/// it.
pub(super) const READABLE: usize = 185;

/// Changes that would allow the request, the narrowest first; or why there is none. For a denied
/// request, the rule of `deny` goes.
pub(super) fn changes_to_allow(policy: &Allowlist, asked: &Asked) -> Result<Vec<RuleChange>, &'static str> {
    if let Some(denied) = denied_by(policy, asked) {
        return Ok(readable([denied]).map(RuleChange::Restore).collect());
    }
    let learnt = policy.learn_up_to(LearnStep::Exact, [asked.clone()], &[]);
    if let Some((_, why)) = learnt.left_out.first() {
        return Err(why.as_str());
    }
    let exact = learnt.rules.into_iter().next().ok_or("the policy now allows it")?.rule;
    let host = Rule::from(exact.host().clone());
    Ok(readable([exact, host]).map(RuleChange::Allow).collect())
}

/// Changes that would deny the request, the narrowest first; or why there is none.
pub(super) fn changes_to_deny(policy: &Allowlist, asked: &Asked) -> Result<Vec<RuleChange>, String> {
    if denied_by(policy, asked).is_some() {
        return Err("a rule of `deny` forbids it already".to_owned());
    }
    let rules = Rule::denying(&asked.method, &asked.url).map_err(|denial| denial.to_string())?;
    Ok(readable(rules).map(RuleChange::Deny).collect())
}

/// The rule of `deny` that covers the request.
fn denied_by(policy: &Allowlist, asked: &Asked) -> Option<Rule> {
    match policy.judge(&asked.method, &asked.url) {
        Decision::Deny(denial) => policy.denied().get(denial.denied_by()?).cloned(),
        Decision::Allow(_) | Decision::NeedsBody(_) => None,
    }
}

/// The rules that the user can read in full.
fn readable(rules: impl IntoIterator<Item = Rule>) -> impl Iterator<Item = Rule> {
    rules.into_iter().filter(|rule| rule.to_yaml().len() <= READABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, url: &str) -> Asked {
        Asked { method: method.to_owned(), url: url.to_owned(), count: 1, blocked: true, answered: false }
    }

    fn rules_to_allow(policy: &Allowlist, asked: &Asked) -> Result<Vec<Rule>, &'static str> {
        changes_to_allow(policy, asked)
            .map(|changes| changes.iter().map(|change| change.rule().clone()).collect())
    }

    fn rules_to_deny(policy: &Allowlist, asked: &Asked) -> Result<Vec<Rule>, String> {
        changes_to_deny(policy, asked)
            .map(|changes| changes.iter().map(|change| change.rule().clone()).collect())
    }

    fn policy(yaml: &str) -> Allowlist {
        Allowlist::from_yaml(yaml, "p").unwrap()
    }

    #[test]
    fn rules_for_the_path_are_offered_before_the_host() {
        let policy = policy("domains: [open.test]\n");
        let rules = rules_to_allow(&policy, &asked("POST", "https://evil.test/a?b=[1]")).unwrap();
        let yaml: Vec<String> = rules.iter().map(Rule::to_yaml).collect();
        assert_eq!(yaml, [r#"{host: evil.test, path: "/a[?]b=[[]1]", methods: [POST]}"#, "evil.test"]);
        for rule in rules {
            assert!(
                policy.clone().with_rules([rule]).judge("POST", "https://evil.test/a?b=[1]").is_allowed()
            );
        }
        let long = asked("GET", &format!("https://evil.test/{}", "x".repeat(300)));
        assert_eq!(rules_to_allow(&policy, &long).unwrap().len(), 1, "only what can be read");
        for url in
            ["https://open.test/", "http://169.254.169.254/", "http://metadata/", "https://evil.test:8/"]
        {
            assert!(rules_to_allow(&policy, &asked("GET", url)).is_err(), "{url}");
        }
    }

    #[test]
    fn denied_request_is_denied_whatever_allows_it() {
        let policy = policy("presets: [github]\ndomains: [open.test, '*.test']\nbudget: {requests: 7}\n");
        for url in ["https://open.test/y?z=1", "https://github.com/o/r.git/info/refs?service=git-upload-pack"]
        {
            let rules = rules_to_deny(&policy, &asked("GET", url)).unwrap();
            assert_eq!(rules.len(), 2, "{url}");
            assert!(policy.judge("GET", url).is_allowed(), "{url}");
            for rule in rules {
                let denying = policy.clone().denying(&rule);
                assert!(!denying.judge("GET", url).is_allowed(), "{rule:?}");
                assert!(denying.judge("GET", "https://x.test/").is_allowed(), "{rule:?}");
                assert!(rules_to_deny(&denying, &asked("GET", url)).is_err(), "{rule:?}");
            }
        }
        assert!(rules_to_deny(&policy, &asked("GET", "https://a.test:8443/")).is_err());
        // The task chooses the spelling, the rule is plain.
        for url in ["//x;v=1/y/?z=*", "/%2578/y", "/x/y?*"] {
            let rules = rules_to_deny(&policy, &asked("GET", &format!("https://open.test{url}"))).unwrap();
            assert_eq!(rules[0].to_yaml(), "{host: open.test, path: /x/y, methods: [GET]}", "{url}");
        }
        let long = format!("https://{}test/{}", "long-label.".repeat(20), "x".repeat(9000));
        assert_eq!(rules_to_deny(&policy, &asked("GET", &long)), Ok(Vec::new()), "it is too long to show");
        // Denied by mistake: only the rule of `deny` goes.
        let denying = policy.clone().denying(&"*.test".parse().unwrap());
        let again = changes_to_allow(&denying, &asked("GET", "https://open.test/y")).unwrap();
        assert_eq!(again, [RuleChange::Restore("*.test".parse().unwrap())]);
        assert_eq!(again[0].applied_to(denying), policy);
    }
}
