//! The two kinds of rules.

use serde::Serialize;
use serde::Serializer;
use serde::ser::SerializeStruct;

use crate::host::HostName;
use crate::host_pattern::HostPattern;
use crate::invalid_rule::InvalidRule;
use crate::method::Method;
use crate::method::RuleMethod;
use crate::path_pattern::PathPattern;
use crate::target::Target;

/// An entry of `domains`: all paths and methods of the hosts it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainRule {
    host: HostPattern,
}

impl DomainRule {
    /// A rule for the hosts that `host` covers.
    ///
    /// # Errors
    ///
    /// A pattern that can never match, see [`HostPattern::new`].
    pub fn new(host: &str) -> Result<Self, InvalidRule> {
        Ok(HostPattern::new(host)?.into())
    }

    /// The hosts it covers.
    #[must_use]
    pub fn host(&self) -> &HostPattern {
        &self.host
    }
}

impl From<HostPattern> for DomainRule {
    fn from(host: HostPattern) -> Self {
        Self { host }
    }
}

impl Serialize for DomainRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.host.as_str())
    }
}

/// An entry of `url_prefixes`: some paths of the hosts it covers, for some methods.
///
/// The name of the list is historical: a path without a `*` covers only itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlRule {
    host: HostPattern,
    path: PathPattern,
    methods: Vec<RuleMethod>,
}

impl UrlRule {
    /// A rule for some paths (an empty `path`: all) and methods (no `methods`: all) of the hosts that `host` covers.
    ///
    /// # Errors
    ///
    /// A pattern that can never match, or something that is no method.
    pub fn new<'a>(
        host: &str,
        path: &str,
        methods: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidRule> {
        Ok(Self {
            host: HostPattern::new(host)?,
            path: PathPattern::new(path)?,
            methods: methods
                .into_iter()
                .map(RuleMethod::new)
                .collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn from_parts(host: HostPattern, path: PathPattern, methods: Vec<RuleMethod>) -> Self {
        Self { host, path, methods }
    }

    /// The hosts it covers.
    #[must_use]
    pub fn host(&self) -> &HostPattern {
        &self.host
    }

    /// The paths it covers.
    #[must_use]
    pub fn path(&self) -> &PathPattern {
        &self.path
    }

    /// The methods it covers; empty for all.
    #[must_use]
    pub fn methods(&self) -> &[RuleMethod] {
        &self.methods
    }

    /// How near the rule comes to allowing a request.
    pub(crate) fn reach(&self, host: &HostName, target: &Target, method: &Method) -> Reach {
        if !self.host.matches(host) {
            Reach::Nothing
        } else if !self.path.matches(target) {
            let bare = target.query().is_some() && self.path.matches_without_query(target);
            if bare {
                Reach::PathWithoutQuery
            } else {
                Reach::Host
            }
        } else if self.methods.is_empty() || self.methods.iter().any(|listed| listed.matches(method)) {
            Reach::All
        } else {
            Reach::Path
        }
    }
}

/// What of a request a rule covers, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    Nothing,
    Host,
    PathWithoutQuery,
    Path,
    All,
}

impl Serialize for UrlRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("UrlRule", 2 + usize::from(!self.methods.is_empty()))?;
        fields.serialize_field("host", self.host.as_str())?;
        fields.serialize_field("path", self.path.as_str())?;
        // An empty list would read as if no method were allowed.
        if self.methods.is_empty() {
            fields.skip_field("methods")?;
        } else {
            fields.serialize_field("methods", &self.methods)?;
        }
        fields.end()
    }
}
