//! Changes to the policy of a run: the rules that a request needs, and those that allow it.

use allowlist::{Allowlist, Asked, Decision, Rule};

/// The longest rule, in bytes, that the smallest screen shows in full: the user must read all of
/// it.
pub(super) const READABLE: usize = 185;

/// Rules that would allow the request, the narrowest first; or why there is none.
pub(super) fn rules_to_allow(policy: &Allowlist, asked: &Asked) -> Result<Vec<Rule>, &'static str> {
    let learnt = policy.learn([asked.clone()], &[]);
    if let Some((_, why)) = learnt.left_out.first() {
        return Err(why.as_str());
    }
    let exact = learnt.rules.into_iter().next().ok_or("the policy now allows it")?.rule;
    let host = Rule::from(exact.host().clone());
    Ok([exact, host].into_iter().filter(|rule| rule.to_yaml().len() <= READABLE).collect())
}

/// Rules of the policy itself that allow the request; or why there is none.
pub(super) fn rules_to_deny(policy: &Allowlist, asked: &Asked) -> Result<Vec<Rule>, &'static str> {
    let allows = |policy: &Allowlist| !matches!(policy.judge(&asked.method, &asked.url), Decision::Deny(_));
    let own = policy.own_rules().iter();
    let rules: Vec<Rule> = own.filter(|rule| allows(&Allowlist::new([(*rule).clone()]))).cloned().collect();
    match rules.as_slice() {
        [] if allows(policy) => {
            Err("a preset allows it: remove the preset from the allowlist, and use `sandbox policy set`")
        }
        [] => Err("no rule of the policy allows it"),
        _ => Ok(rules),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, url: &str) -> Asked {
        Asked { method: method.to_owned(), url: url.to_owned(), count: 1, blocked: true, answered: false }
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
    fn deny_removes_only_rules_that_allow_the_request() {
        let text = "presets: [github]\ndomains: [open.test, '*.test']\nurl_prefixes: [{host: a.example, path: /x}]\nbudget: {requests: 7}\n";
        let policy = policy(text);
        let request = asked("GET", "https://open.test/y");
        let rules = rules_to_deny(&policy, &request).unwrap();
        assert_eq!(rules.len(), 2);
        let changed = policy.without_rules(&rules);
        assert!(!changed.judge("GET", "https://open.test/y").is_allowed());
        assert!(changed.judge("GET", "https://a.example/x").is_allowed());
        assert_eq!((changed.presets(), changed.budget()), (policy.presets(), policy.budget()));
        assert!(rules_to_deny(&policy, &asked("GET", "https://b.example/")).is_err());
    }
}
