//! The policy as a whole: its rules, and which of them are for a host.

use serde::Serialize;
use serde::Serializer;
use serde::ser::SerializeStruct;

use crate::budget::Budget;
use crate::host::HostName;
use crate::host_pattern::HostPattern;
use crate::rule::Rule;
use crate::rule::RuleKind;
use crate::rule::UrlRule;
use crate::vendor_tools::VendorTools;

/// What may be reached. The default is empty and allows nothing.
///
/// Serialized as `{"domains": […], "url_prefixes": [{"host", "path", "methods", "git"}], "vendor_tools": {…}, "budget": {…}}`; deserializing
/// validates as strictly as [`Allowlist::from_json`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    /// In the order of their kinds.
    rules: Vec<Rule>,
    /// Whether any of them is for repositories, so that other policies need not look.
    repositories: bool,
    vendor_tools: VendorTools,
    /// Apart: few policies have one.
    budget: Box<Budget>,
}

impl Allowlist {
    /// A policy of rules made by a program. Rules of one kind keep their order; those for whole hosts come first.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by_key(Rule::kind);
        let repositories = rules.iter().any(|rule| rule.git().is_some());
        Self { rules, repositories, ..Self::default() }
    }

    /// The same rules, with another word on the tools that a model's vendor runs.
    #[must_use]
    pub fn with_vendor_tools(self, vendor_tools: VendorTools) -> Self {
        Self { vendor_tools, ..self }
    }

    /// What it says of the tools that a model's vendor runs on its side.
    #[must_use]
    pub fn vendor_tools(&self) -> &VendorTools {
        &self.vendor_tools
    }

    /// The same policy, with another budget.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget: budget.into(), ..self }
    }

    /// How much one execution may use of what is allowed.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
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

    /// Whether some rule is for repositories of `host`, so that pushes to it are judged apart.
    #[must_use]
    pub fn has_repository_rules_for(&self, host: &HostName) -> bool {
        self.repositories && self.rules.iter().any(|rule| rule.git().is_some() && rule.host().matches(host))
    }

    /// Whether requests to `host` can depend on their bodies.
    #[must_use]
    pub fn judges_bodies_of(&self, host: &HostName) -> bool {
        self.has_repository_rules_for(host) || self.vendor_tools.concerns(host)
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
            || self.vendor_tools.concerns(host)
    }

    /// Whether `host` is allowed by some of its paths only, or some are judged apart, so that headers which name another path must go.
    #[must_use]
    pub fn has_path_rules_for(&self, host: &HostName) -> bool {
        let whole = self.domains().any(|domain| domain.matches(host));
        let mut limited = self.url_rules().filter(|rule| !rule.path().covers_every_path());
        (!whole && limited.any(|rule| rule.host().matches(host))) || self.judges_bodies_of(host)
    }
}

impl Serialize for Allowlist {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_vendor_tools = self.vendor_tools != VendorTools::default();
        let has_budget = *self.budget != Budget::default();
        let fields = 2 + usize::from(has_vendor_tools) + usize::from(has_budget);
        let mut lists = serializer.serialize_struct("Allowlist", fields)?;
        lists.serialize_field(RuleKind::Domain.list(), &self.domains().collect::<Vec<_>>())?;
        lists.serialize_field(RuleKind::Url.list(), &self.url_rules().collect::<Vec<_>>())?;
        if has_vendor_tools {
            lists.serialize_field("vendor_tools", &self.vendor_tools)?;
        }
        if has_budget {
            lists.serialize_field("budget", &self.budget)?;
        }
        lists.end()
    }
}
