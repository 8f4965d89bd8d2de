//! Checks whether a policy allows the domains that a tool is limited to.

use serde_json::value::RawValue;

use super::json;
use crate::host::HostName;
use crate::host_pattern::HostPattern;
use crate::lint::covers_host;
use crate::policy::Allowlist;
use crate::rule::UrlRule;
use crate::rule_overlap::hosts_may_meet;

/// Whether `raw` names domains, and the policy allows every page of each of them.
///
/// For the vendors a domain includes its subdomains, so the policy must allow these too.
pub(super) fn are_allowed(raw: &RawValue, policy: &Allowlist) -> bool {
    let Ok(domains) = json::list(raw) else { return false };
    let allowed = |domain: &&RawValue| json::text(domain).is_some_and(|domain| is_allowed(&domain, policy));
    !domains.is_empty() && domains.iter().all(allowed)
}

fn is_allowed(domain: &str, policy: &Allowlist) -> bool {
    // A path after the domain only narrows it.
    let host = domain.split('/').next().unwrap_or_default();
    let Ok(host) = HostName::from_wire(host.as_bytes()) else { return false };
    [host.to_string(), format!("*.{host}")].iter().all(|pattern| {
        HostPattern::new(pattern).is_ok_and(|pattern| {
            let whole = policy.domains().any(|wide| covers_host(wide, &pattern));
            let by_path = policy.url_rules().any(|rule| {
                rule.allows_reading() && rule.path().covers_every_path() && covers_host(rule.host(), &pattern)
            });
            // The vendors read pages.
            let mut denied =
                policy.denied().iter().filter(|rule| rule.as_url().is_none_or(UrlRule::allows_reading));
            let denied = denied.any(|rule| hosts_may_meet(rule.host(), &pattern));
            (whole || by_path) && !denied
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains() {
        let policy = "domains: [a.example, '*.a.example', b.example, '*.corp']
url_prefixes: [{host: c.example}, {host: '*.c.example', methods: [get]}, {host: d.example, path: /x}, {host: '*.d.example'},
  {host: e.example, git: {}}, {host: '*.e.example', git: {}}, {host: f.example, methods: [POST]}, {host: '*.f.example'}]";
        let policy = Allowlist::from_yaml(policy, "policy.yaml").unwrap();
        for (list, expected) in [
            (r#"["a.example"]"#, true),
            (r#"["A.example", "x.y.a.example/docs"]"#, true),
            (r#"["x.corp"]"#, true),
            (r#"["c.example"]"#, true),
            (r#"["\u0061.example"]"#, true),
            (r#"["a.example", "b.example"]"#, false),
            (r#"["b.example"]"#, false),
            (r#"["d.example"]"#, false),
            (r#"["d.example/x"]"#, false),
            (r#"["e.example"]"#, false),
            (r#"["f.example"]"#, false),
            (r#"["corp"]"#, false),
            (r#"["example"]"#, false),
            (r#"["*.a.example"]"#, false),
            (r#"["https://a.example"]"#, false),
            (r#"["10.0.0.1"]"#, false),
            (r#"[""]"#, false),
            ("[]", false),
            ("[1]", false),
            (r#""a.example""#, false),
            (r#"{"a.example": 1}"#, false),
            ("null", false),
        ] {
            assert_eq!(are_allowed(serde_json::from_str(list).unwrap(), &policy), expected, "{list}");
        }
    }

    #[test]
    fn domain_with_a_denied_part_is_not_allowed() {
        let policy = "domains: ['*.example', a.example, b.example, c.example]
deny: [x.a.example, {host: b.example, path: /secret}, '*.z.example', {host: c.example, methods: [DELETE]}]";
        let policy = Allowlist::from_yaml(policy, "policy.yaml").unwrap();
        for (list, expected) in [
            (r#"["a.example"]"#, false),
            (r#"["b.example"]"#, false),
            (r#"["y.z.example"]"#, false),
            (r#"["z.example"]"#, false),
            (r#"["c.example"]"#, true),
        ] {
            assert_eq!(are_allowed(serde_json::from_str(list).unwrap(), &policy), expected, "{list}");
        }
    }
}
