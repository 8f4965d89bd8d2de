//! The rules of a policy.

use std::fmt;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;
use serde::de::Error;
use serde::de::MapAccess;
use serde::de::Visitor;
use serde::de::value::MapAccessDeserializer;

use crate::git::GitRule;
use crate::git::Service;
use crate::git::covers;
use crate::host::HostName;
use crate::host_pattern::HostPattern;
use crate::invalid_rule::InvalidRule;
use crate::method::RuleMethod;
use crate::path_pattern::PathPattern;
use crate::request::Request;

/// A rule of either kind. The compiler reports a new kind to every `match` on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// An entry of `domains`: all paths and methods of the hosts it covers.
    Domain(HostPattern),
    /// An entry of `url_prefixes`.
    Url(UrlRule),
}

/// The list of a rule, in the order in which the lists are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RuleKind {
    /// `deny`.
    Deny,
    /// `domains`.
    Domain,
    /// `url_prefixes`.
    Url,
}

impl RuleKind {
    /// The key of the list of such rules in a document.
    #[must_use]
    pub const fn list(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Domain => "domains",
            Self::Url => "url_prefixes",
        }
    }
}

impl Rule {
    /// The list of rules that allow what it covers.
    #[must_use]
    pub fn kind(&self) -> RuleKind {
        match self {
            Self::Domain(_) => RuleKind::Domain,
            Self::Url(_) => RuleKind::Url,
        }
    }

    /// The entry of `url_prefixes`, if it is one.
    pub(crate) fn as_url(&self) -> Option<&UrlRule> {
        match self {
            Self::Domain(_) => None,
            Self::Url(rule) => Some(rule),
        }
    }

    /// The hosts that it covers.
    #[must_use]
    pub fn host(&self) -> &HostPattern {
        match self {
            Self::Domain(host) => host,
            Self::Url(rule) => rule.host(),
        }
    }

    /// Its rights to repositories, if it is for repositories.
    #[must_use]
    pub fn git(&self) -> Option<&GitRule> {
        self.as_url().and_then(UrlRule::git)
    }

    /// The rule as one of `deny`: those for repositories are for all that begins with their paths.
    pub(crate) fn for_denial(self) -> Self {
        match self {
            Self::Url(UrlRule { host, path, allowed: Allowed::Git(_) }) => {
                let path = path.as_str().strip_suffix(".git").unwrap_or(path.as_str());
                let path = PathPattern::new(&format!("{path}*")).unwrap_or_else(|_| PathPattern::any());
                Self::Url(UrlRule { host, path, allowed: Allowed::Everything })
            }
            other => other,
        }
    }

    /// Whether it forbids `request` as a rule of `deny`, except for the path. Unlike in other lists, a
    /// wildcard covers addresses too.
    pub(crate) fn denies_some_path(&self, request: &Request) -> bool {
        let is_meant = |rule: &UrlRule| match rule.allowed() {
            Allowed::Methods(methods) => methods.iter().any(|listed| listed.matches(request.method())),
            Allowed::Everything | Allowed::Git(_) => true,
        };
        self.denies_host(request.host()) && self.as_url().is_none_or(is_meant)
    }

    /// Whether it forbids some requests to `host` as a rule of `deny`.
    pub(crate) fn denies_host(&self, host: &HostName) -> bool {
        self.host().pattern().matches(host.as_str())
    }

    /// How much of a request the rule covers.
    pub(crate) fn reach(&self, request: &Request) -> Reach {
        if !self.host().matches(request.host()) {
            return Reach::Nothing;
        }
        match self {
            Self::Domain(_) => Reach::All,
            Self::Url(rule) => rule.reach(request),
        }
    }
}

/// A host pattern or an entry of `url_prefixes`, as in its list.
impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Domain(host) => host.serialize(serializer),
            Self::Url(rule) => rule.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RuleVisitor)
    }
}

struct RuleVisitor;

impl<'de> Visitor<'de> for RuleVisitor {
    type Value = Rule;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a host pattern, or a mapping such as {host: api.example, path: /v1/*}")
    }

    fn visit_str<E: Error>(self, host: &str) -> Result<Rule, E> {
        HostPattern::new(host).map(Rule::Domain).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, entry: A) -> Result<Rule, A::Error> {
        UrlRule::deserialize(MapAccessDeserializer::new(entry)).map(Rule::Url)
    }
}

impl From<HostPattern> for Rule {
    fn from(host: HostPattern) -> Self {
        Self::Domain(host)
    }
}

impl From<UrlRule> for Rule {
    fn from(rule: UrlRule) -> Self {
        Self::Url(rule)
    }
}

/// An entry of `url_prefixes`: some paths of the hosts it covers, for some methods.
///
/// The name of the list is historical: a path without a `*` covers only itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Entry", into = "Entry")]
pub struct UrlRule {
    host: HostPattern,
    path: PathPattern,
    allowed: Allowed,
}

/// The requests that an entry allows on its paths. The compiler reports a new kind to every `match`
/// on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// All requests.
    Everything,
    /// Requests with one of these methods; never an empty list.
    Methods(Vec<RuleMethod>),
    /// Git's requests to the repositories at these paths.
    Git(GitRule),
}

impl Allowed {
    /// Requests with one of these methods; all requests if there are none.
    fn methods(methods: Vec<RuleMethod>) -> Self {
        if methods.is_empty() { Self::Everything } else { Self::Methods(methods) }
    }
}

/// The serialized form of an entry.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "UrlRule")]
struct Entry {
    host: HostPattern,
    #[serde(default = "PathPattern::any")]
    path: PathPattern,
    // An empty list would read as if no method were allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    methods: Vec<RuleMethod>,
    // Without a value it must not read as if it were absent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    git: Option<GitRule>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<GitRule>, D::Error> {
    GitRule::deserialize(deserializer).map(Some)
}

impl TryFrom<Entry> for UrlRule {
    type Error = InvalidRule;

    fn try_from(entry: Entry) -> Result<Self, InvalidRule> {
        let Entry { host, path, methods, git } = entry;
        let allowed = match git {
            Some(_) if !methods.is_empty() => return Err(InvalidRule::Excluded("methods", "git")),
            Some(_) if path.as_str().ends_with('/') => return Err(InvalidRule::RepositoryPath),
            Some(git) => Allowed::Git(git),
            None => Allowed::methods(methods),
        };
        Ok(Self { host, path, allowed })
    }
}

impl From<UrlRule> for Entry {
    fn from(UrlRule { host, path, allowed }: UrlRule) -> Self {
        let (methods, git) = match allowed {
            Allowed::Everything => (Vec::new(), None),
            Allowed::Methods(methods) => (methods, None),
            Allowed::Git(git) => (Vec::new(), Some(git)),
        };
        Self { host, path, methods, git }
    }
}

impl UrlRule {
    /// A rule for some paths (an empty `path`: all) and methods (no `methods`: all) of the hosts
    /// that `host` covers.
    ///
    /// # Errors
    ///
    /// A pattern that can never match, or something that is not a method.
    pub fn new<'a>(
        host: &str,
        path: &str,
        methods: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidRule> {
        let (host, path) = (HostPattern::new(host)?, PathPattern::new(path)?);
        let methods = methods.into_iter().map(RuleMethod::new).collect::<Result<_, _>>()?;
        Ok(Self { host, path, allowed: Allowed::methods(methods) })
    }

    /// A rule for the repositories whose paths `path` covers, with or without `.git` at their end
    /// (an empty `path`: all), on the hosts that `host` covers.
    ///
    /// # Errors
    ///
    /// A pattern that can never match.
    pub fn repository(host: &str, path: &str, git: GitRule) -> Result<Self, InvalidRule> {
        let (host, path) = (HostPattern::new(host)?, PathPattern::new(path)?);
        Entry { host, path, methods: Vec::new(), git: Some(git) }.try_into()
    }

    /// The hosts that it covers.
    #[must_use]
    pub fn host(&self) -> &HostPattern {
        &self.host
    }

    /// The paths it covers.
    #[must_use]
    pub fn path(&self) -> &PathPattern {
        &self.path
    }

    /// The requests that it allows on its paths.
    #[must_use]
    pub fn allowed(&self) -> &Allowed {
        &self.allowed
    }

    /// Its rights to a repository, if its path is that of one.
    #[must_use]
    pub fn git(&self) -> Option<&GitRule> {
        if let Allowed::Git(git) = &self.allowed { Some(git) } else { None }
    }

    /// Whether it allows every request to its paths.
    pub(crate) fn allows_every_request(&self) -> bool {
        self.allowed == Allowed::Everything
    }

    /// Whether it allows to read all of its paths.
    pub(crate) fn allows_reading(&self) -> bool {
        match &self.allowed {
            Allowed::Everything => true,
            Allowed::Methods(methods) => methods.iter().any(|method| method.as_str() == "GET"),
            Allowed::Git(_) => false,
        }
    }

    /// Whether its decision can depend on a request body.
    pub(crate) fn judges_bodies(&self) -> bool {
        match self.allowed {
            Allowed::Everything | Allowed::Methods(_) => false,
            Allowed::Git(_) => true,
        }
    }

    /// Whether it allows every request to a common path that `other` allows.
    pub(crate) fn allows_all_of(&self, other: &Self) -> bool {
        match (&self.allowed, &other.allowed) {
            (Allowed::Everything, Allowed::Methods(_)) => true,
            (Allowed::Methods(wide), Allowed::Methods(narrow)) => {
                narrow.iter().all(|method| wide.contains(method))
            }
            (wide, narrow) => wide == narrow,
        }
    }

    /// Whether it allows the head of a request to a host that it covers.
    pub(crate) fn allows_head(&self, request: &Request) -> bool {
        matches!(self.reach(request), Reach::All | Reach::Head)
    }

    /// How much it covers of a request to a host that it covers.
    fn reach(&self, request: &Request) -> Reach {
        let method_allowed = match &self.allowed {
            Allowed::Everything => true,
            Allowed::Methods(methods) => methods.iter().any(|listed| listed.matches(request.method())),
            Allowed::Git(git) => return self.reach_repository(git, request),
        };
        let target = request.target();
        if !self.path.matches(target) {
            let bare = target.query().is_some() && self.path.matches_without_query(target);
            if bare { Reach::PathWithoutQuery } else { Reach::Host }
        } else if method_allowed {
            Reach::All
        } else {
            Reach::Path
        }
    }

    fn reach_repository(&self, git: &GitRule, request: &Request) -> Reach {
        match Service::of(request) {
            Some((service, repository)) if covers(&self.path, repository) => match service {
                Service::PushOffer | Service::Push if git.push.is_empty() => Reach::Path,
                Service::Fetch | Service::PushOffer => Reach::All,
                Service::Push => Reach::Head,
            },
            _ => Reach::Host,
        }
    }
}

/// The part of a request that a rule covers, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    Nothing,
    Host,
    PathWithoutQuery,
    Path,
    /// Everything except the body.
    Head,
    All,
}
