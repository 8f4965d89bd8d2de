//! The policy as a whole: its rules and what they say of a request.

use serde::Serialize;
use serde::Serializer;
use serde::ser::SerializeStruct;

use crate::advice;
use crate::body_check::BodyCheck;
use crate::decision::Decision;
use crate::git::PushCheck;
use crate::git::could_push;
use crate::host::HostName;
use crate::host_pattern::HostPattern;
use crate::matched::Match;
use crate::request::Request;
use crate::rule::Reach;
use crate::rule::Rule;
use crate::rule::RuleKind;
use crate::rule::UrlRule;

/// What may be reached. The default is empty and allows nothing.
///
/// Serialized as `{"domains": […], "url_prefixes": [{"host", "path", "methods", "git"}]}`; deserializing validates as strictly
/// as [`Allowlist::from_json`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    /// In the order of their kinds.
    rules: Vec<Rule>,
    /// Whether any of them is for repositories, so that other policies need not look.
    repositories: bool,
}

impl Allowlist {
    /// A policy of rules made by a program. Rules of one kind keep their order; those for whole hosts come first.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by_key(Rule::kind);
        let repositories = rules.iter().any(|rule| rule.git().is_some());
        Self { rules, repositories }
    }

    /// The rules in the order in which they are tried: those for whole hosts first.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether there is no rule, so that nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Finds the first rule that allows `request`, or says what comes nearest to allowing it.
    ///
    /// On a host with rules for repositories, nothing but these allows a push.
    pub fn decide(&self, request: &Request) -> Decision {
        let push = self.is_push(request);
        let mut nearest = Reach::Nothing;
        for (position, rule) in
            self.rules.iter().enumerate().filter(|(_, rule)| !push || rule.git().is_some())
        {
            match rule.reach(request) {
                Reach::All => return Decision::Allow(self.matched(position, rule)),
                Reach::Head => return Decision::NeedsBody(self.push_check(request)),
                reach => nearest = nearest.max(reach),
            }
        }
        Decision::Deny(if push {
            advice::no_push(nearest, request)
        } else {
            advice::denial(nearest, request)
        })
    }

    /// All rules for the repository count, since each allows some refs.
    fn push_check(&self, request: &Request) -> BodyCheck {
        let rules = self.rules.iter().enumerate().filter(|(_, rule)| rule.reach(request) == Reach::Head);
        let rules =
            rules.filter_map(|(position, rule)| Some((self.matched(position, rule), rule.git()?.clone())));
        let (matches, rules) = rules.unzip();
        BodyCheck::push(PushCheck::new(rules, request.host().to_string()), matches)
    }

    /// Whether `request` could push to a host with rules for repositories, so that nothing but these allows it.
    #[must_use]
    pub fn is_push(&self, request: &Request) -> bool {
        self.has_repository_rules_for(request.host()) && could_push(request.target())
    }

    /// Whether some rule is for repositories of `host`, so that pushes to it are told from other requests.
    #[must_use]
    pub fn has_repository_rules_for(&self, host: &HostName) -> bool {
        self.repositories && self.rules.iter().any(|rule| rule.git().is_some() && rule.host().matches(host))
    }

    fn matched(&self, position: usize, rule: &Rule) -> Match {
        let kind = rule.kind();
        let before = self.rules.partition_point(|other| other.kind() < kind);
        Match {
            kind,
            index: position.saturating_sub(before),
            host: rule.host().to_string(),
            path: match rule {
                Rule::Domain(_) => None,
                Rule::Url(rule) => Some(rule.path().to_string()),
            },
        }
    }

    pub(crate) fn domains(&self) -> impl Iterator<Item = &HostPattern> {
        self.rules.iter().filter_map(|rule| match rule {
            Rule::Domain(host) => Some(host),
            Rule::Url(_) => None,
        })
    }

    pub(crate) fn url_rules(&self) -> impl Iterator<Item = &UrlRule> {
        self.rules.iter().filter_map(|rule| match rule {
            Rule::Domain(_) => None,
            Rule::Url(rule) => Some(rule),
        })
    }

    /// Whether some rule for `host` depends on the method, so that headers which override it must go.
    #[must_use]
    pub fn has_method_rules_for(&self, host: &HostName) -> bool {
        let by_method = |rule: &UrlRule| !rule.methods().is_empty() || rule.git().is_some();
        self.url_rules().any(|rule| by_method(rule) && rule.host().matches(host))
    }

    /// Whether `host` is allowed by some of its paths only, or some are judged apart, so that headers which name another path must go.
    #[must_use]
    pub fn has_path_rules_for(&self, host: &HostName) -> bool {
        let whole = self.domains().any(|domain| domain.matches(host));
        let mut limited = self.url_rules().filter(|rule| !rule.path().covers_every_path());
        (!whole && limited.any(|rule| rule.host().matches(host))) || self.has_repository_rules_for(host)
    }
}

impl Serialize for Allowlist {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lists = serializer.serialize_struct("Allowlist", 2)?;
        lists.serialize_field(RuleKind::Domain.list(), &self.domains().collect::<Vec<_>>())?;
        lists.serialize_field(RuleKind::Url.list(), &self.url_rules().collect::<Vec<_>>())?;
        lists.end()
    }
}

#[cfg(test)]
mod tests;
