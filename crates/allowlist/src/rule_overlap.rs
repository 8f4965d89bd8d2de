//! Overlap of two rules.

use crate::host_pattern::HostPattern;
use crate::lint::covers;
use crate::lint::covers_host;
use crate::lint::covers_rule;
use crate::path_pattern::PathPattern;
use crate::rule::Allowed;
use crate::rule::Rule;
use crate::rule::UrlRule;

impl Rule {
    /// Whether it allows everything that `other` allows; may be a false negative, never a false
    /// positive.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let wide = match self {
            Self::Domain(wide) => return covers_host(wide, other.host()),
            Self::Url(wide) => wide,
        };
        let is_whole = wide.allows_every_request() && wide.path().covers_every_path();
        match other {
            _ if is_whole => covers_host(wide.host(), other.host()),
            Self::Domain(_) => false,
            Self::Url(narrow) => covers_rule(wide, narrow),
        }
    }

    /// Whether `denied`, a rule of `deny`, may forbid a part of what this rule allows. It is only a
    /// hint: paths with wildcards are compared by their beginnings.
    #[must_use]
    pub fn may_be_denied_by(&self, denied: &Self) -> bool {
        let (Some(one), Some(two)) = (self.as_url(), denied.as_url()) else {
            return host_may_be_denied(self.host(), denied.host());
        };
        let plain = |path: &PathPattern| path.plain().unwrap_or_else(|| path.clone());
        let (allowed, forbidden) = (plain(one.path()), plain(two.path()));
        let paths = if allowed.covers_every_path() || forbidden.covers_every_path() {
            true
        } else if allowed.pattern().is_exact() {
            let path = allowed.as_str().split(['?', ';']).next().unwrap_or_default();
            [allowed.as_str(), path, path.trim_end_matches('/')]
                .into_iter()
                .any(|text| forbidden.matches_in_any_case(text))
        } else {
            let begin = |path: &PathPattern| path.pattern().literal_prefix().to_lowercase();
            may_begin(&begin(&allowed), &begin(&forbidden))
        };
        paths && host_may_be_denied(self.host(), denied.host()) && methods_may_meet(one, two)
    }

    /// Whether both may cover the same request; may be a false positive, never a false negative.
    #[must_use]
    pub fn may_meet(&self, other: &Self) -> bool {
        hosts_may_meet(self.host(), other.host())
            && match (self.as_url(), other.as_url()) {
                (Some(one), Some(two)) => paths_may_meet(one, two) && methods_may_meet(one, two),
                _ => true,
            }
    }
}

/// Whether both may match the same host; may be a false positive, never a false negative.
pub(crate) fn hosts_may_meet(one: &HostPattern, two: &HostPattern) -> bool {
    if one.is_exact() || two.is_exact() {
        return covers_host(one, two) || covers_host(two, one);
    }
    let (one, two) = (one.pattern(), two.pattern());
    may_begin(&one.literal_prefix(), &two.literal_prefix()) && {
        let (one, two) = (one.literal_suffix(), two.literal_suffix());
        one.ends_with(&two) || two.ends_with(&one)
    }
}

/// The same for a host of `deny`, whose wildcards cover addresses too.
fn host_may_be_denied(host: &HostPattern, denied: &HostPattern) -> bool {
    denied.pattern().matches(host.as_str()) || hosts_may_meet(host, denied)
}

fn may_begin(one: &str, two: &str) -> bool {
    one.starts_with(two) || two.starts_with(one)
}

fn paths_may_meet(one: &UrlRule, two: &UrlRule) -> bool {
    // The path of a repository is a prefix of those of its requests.
    let anywhere = |rule: &UrlRule| rule.path().covers_every_path() || rule.git().is_some();
    if anywhere(one) || anywhere(two) {
        return true;
    }
    let (one, two) = (one.path().pattern(), two.path().pattern());
    if one.is_exact() || two.is_exact() {
        return covers(one, two) || covers(two, one);
    }
    may_begin(&one.literal_prefix(), &two.literal_prefix())
}

fn methods_may_meet(one: &UrlRule, two: &UrlRule) -> bool {
    match (one.allowed(), two.allowed()) {
        (Allowed::Methods(one), Allowed::Methods(two)) => one.iter().any(|method| two.contains(method)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_that_is_denied_in_part_is_found() {
        for (allowed, denied, expected) in [
            ("a.b/Admin", "a.b/admin", true),
            ("a.b/admin/", "a.b/admin", true),
            ("https://a.b/admin?x=1", "a.b/admin", true),
            ("a.b//admin", "a.b/admin", true),
            ("a.b/adm", "a.b/admin*", false),
            ("a.b/adm*", "a.b/admin*", true),
            ("GET a.b/admin", "POST a.b/admin", false),
            ("a.b", "a.b/admin", true),
            ("*.b", "x.c", false),
            ("203.0.113.5", "203.*", true),
        ] {
            let (rule, deny): (Rule, Rule) = (allowed.parse().unwrap(), denied.parse().unwrap());
            assert_eq!(rule.may_be_denied_by(&deny), expected, "{allowed} and {denied}");
        }
    }

    #[test]
    fn covering_and_overlapping_rules() {
        for (one, two, covers, meets) in [
            ("a.b", "a.b", true, true),
            ("*.a.b", "x.a.b/y", true, true),
            ("a.b", "c.b", false, false),
            ("x.a.b", "*.a.b", false, true),
            ("*.a.b", "x*.b", false, true),
            ("*.a.b", "*.c.b", false, false),
            ("x*.b", "y*.b", false, false),
            ("a?.b/x", "*.b", false, true),
            ("a.b/*", "a.b", true, true),
            ("a.b/x*", "GET a.b/x/y", true, true),
            ("GET a.b/x*", "a.b/x/y", false, true),
            ("GET a.b/x*", "POST a.b/x/y", false, false),
            ("a.b/x", "a.b/y", false, false),
            ("a.b/x/*", "a.b/y*", false, false),
            ("a.b/x", "a.b", false, true),
            ("https://a.b/x?y", "a.b/x*", false, true),
        ] {
            let (first, second): (Rule, Rule) = (one.parse().unwrap(), two.parse().unwrap());
            assert_eq!((first.covers(&second), first.may_meet(&second)), (covers, meets), "{one} and {two}");
            assert_eq!(second.may_meet(&first), meets, "{two} and {one}");
        }
    }
}
