//! The policy as a whole: its rules and what they say of a request.

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;

use crate::decision::Decision;
use crate::decision::Match;
use crate::decision::RuleKind;
use crate::denial::Denial;
use crate::host::HostName;
use crate::parse;
use crate::parse::ParseError;
use crate::request::Request;
use crate::rule::DomainRule;
use crate::rule::Reach;
use crate::rule::UrlRule;

/// What may be reached. The default is empty and allows nothing.
///
/// Serialized as `{"domains": […], "url_prefixes": [{"host", "path", "methods"}]}`; deserializing validates as strictly
/// as [`Allowlist::from_json`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Allowlist {
    domains: Vec<DomainRule>,
    url_prefixes: Vec<UrlRule>,
}

impl Allowlist {
    /// A policy of rules made by a program.
    #[must_use]
    pub fn new(domains: Vec<DomainRule>, url_prefixes: Vec<UrlRule>) -> Self {
        Self {
            domains,
            url_prefixes,
        }
    }

    /// Reads the YAML form; `file` only labels errors. An empty document is an empty policy.
    ///
    /// # Errors
    ///
    /// Anything but a policy in which every rule can match something: the error names line, column and the mend.
    pub fn from_yaml(text: &str, file: &str) -> Result<Self, ParseError> {
        parse::from_yaml(text, file)
    }

    /// Reads the JSON form; `file` only labels errors.
    ///
    /// # Errors
    ///
    /// As [`Allowlist::from_yaml`].
    pub fn from_json(text: &str, file: &str) -> Result<Self, ParseError> {
        parse::from_json(text, file)
    }

    /// Writes the YAML form.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        parse::to_yaml(self)
    }

    /// Writes the JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        parse::to_json(self)
    }

    /// The rules for whole hosts, which are looked at first.
    #[must_use]
    pub fn domains(&self) -> &[DomainRule] {
        &self.domains
    }

    /// The rules for paths, in the order in which they are looked at.
    #[must_use]
    pub fn url_prefixes(&self) -> &[UrlRule] {
        &self.url_prefixes
    }

    /// Whether there is no rule, so that nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.url_prefixes.is_empty()
    }

    /// Finds the first rule that allows `request`, or says what comes nearest to allowing it.
    pub fn decide(&self, request: &Request) -> Decision {
        if let Some((index, rule)) = first(&self.domains, |rule| rule.host().matches(request.host())) {
            let host = rule.host().to_string();
            return Decision::Allow(Match {
                kind: RuleKind::Domain,
                index,
                host,
                path: None,
            });
        }
        let mut nearest = Reach::Nothing;
        for (index, rule) in self.url_prefixes.iter().enumerate() {
            let reach = rule.reach(request.host(), request.target(), request.method());
            if reach == Reach::All {
                let path = Some(rule.path().to_string());
                return Decision::Allow(Match {
                    kind: RuleKind::Url,
                    index,
                    host: rule.host().to_string(),
                    path,
                });
            }
            nearest = nearest.max(reach);
        }
        Decision::Deny(match nearest {
            Reach::All | Reach::Path => Denial::method(request),
            Reach::PathWithoutQuery => Denial::query(request),
            Reach::Host => Denial::path_not_allowed(request),
            Reach::Nothing => Denial::host(request),
        })
    }

    /// Whether some rule for `host` depends on the method, so that headers which override it must go.
    #[must_use]
    pub fn has_method_rules_for(&self, host: &HostName) -> bool {
        self.url_prefixes
            .iter()
            .any(|rule| !rule.methods().is_empty() && rule.host().matches(host))
    }

    /// Whether `host` is allowed by some of its paths only, so that headers which name another path must go.
    #[must_use]
    pub fn has_path_rules_for(&self, host: &HostName) -> bool {
        let whole = self.domains.iter().any(|rule| rule.host().matches(host));
        let mut limited = self
            .url_prefixes
            .iter()
            .filter(|rule| !rule.path().covers_every_path());
        !whole && limited.any(|rule| rule.host().matches(host))
    }
}

fn first<T>(rules: &[T], matches: impl Fn(&T) -> bool) -> Option<(usize, &T)> {
    rules.iter().enumerate().find(|(_, rule)| matches(rule))
}

impl<'de> Deserialize<'de> for Allowlist {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests;
