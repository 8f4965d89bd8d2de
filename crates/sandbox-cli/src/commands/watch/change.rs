//! Changes to the policy of a run: the rules that allow a request, and those that deny it.

use allowlist::{Allowlist, Asked, Decision, Reason, Rule};

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

/// Rules that would deny the request, the narrowest first; or why there is none.
pub(super) fn rules_to_deny(policy: &Allowlist, asked: &Asked) -> Result<Vec<Rule>, String> {
    if let Decision::Deny(denial) = policy.judge(&asked.method, &asked.url)
        && denial.reason() == Reason::Denied
    {
        return Err("a rule of `deny` forbids it already".to_owned());
    }
    let exact =
        format!("{} {}", asked.method, asked.url).parse::<Rule>().map_err(|error| error.to_string())?;
    let host = Rule::from(exact.host().clone());
    Ok([exact, host].into_iter().filter(|rule| rule.to_yaml().len() <= READABLE).collect())
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
    }
}
