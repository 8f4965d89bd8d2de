//! The policy as a whole: its rules, and which of them apply to a host.

use serde::Deserialize;
use serde::Serialize;
use serde::Serializer;
use serde::ser::SerializeStruct;

use crate::budget::Budget;
use crate::host::HostName;
use crate::host_pattern::HostPattern;
use crate::path_pattern::PathPattern;
use crate::preset::Preset;
use crate::request::Request;
use crate::rule::Rule;
use crate::rule::RuleKind;
use crate::rule::UrlRule;
use crate::vendor_tools::VendorTools;

/// The hosts and paths that may be reached. The default is empty and allows nothing.
///
/// Serialized as `{"presets": […], "deny": […], "domains": […], "url_prefixes": [{"host", "path", "methods",
/// "git"}], "vendor_tools": {…}, "budget": {…}, "within": [{"document", "policy"}]}`; deserializing
/// validates as strictly as [`Allowlist::from_json`], which refuses `within`: files have no outer
/// policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    /// The policy's own rules in the order of their kinds, then those of the presets. These allow
    /// no whole host, so domains always come first.
    rules: Vec<Rule>,
    /// Whether any of its own rules judges bodies; other policies can skip the check.
    judges_bodies: bool,
    apart: Box<Apart>,
}

/// Parts that few policies have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Apart {
    presets: Vec<Preset>,
    denied: Vec<Rule>,
    /// The further pattern of the path of each of these, from [`PathPattern::plain`].
    plain: Vec<Option<PathPattern>>,
    vendor_tools: VendorTools,
    budget: Budget,
    outer: Vec<OuterPolicy>,
}

/// A policy outside of another one: a request must be allowed by both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping with the keys `document` and `policy`")]
#[non_exhaustive]
pub struct OuterPolicy {
    /// The name of its document, such as `/etc/sandbox/policy.yaml`. Messages to the task contain it.
    pub document: String,
    /// Its rules, vendor tools and budget.
    pub policy: Allowlist,
}

impl OuterPolicy {
    /// The policy that messages call `document`.
    #[must_use]
    pub fn new(document: impl Into<String>, policy: Allowlist) -> Self {
        Self { document: document.into(), policy }
    }
}

/// A change of what one rule covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleChange {
    /// As by [`Allowlist::allowing`].
    Allow(Rule),
    /// As by [`Allowlist::denying`].
    Deny(Rule),
    /// The same without this rule of `deny`.
    Restore(Rule),
}

impl RuleChange {
    /// Its rule.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        match self {
            Self::Allow(rule) | Self::Deny(rule) | Self::Restore(rule) => rule,
        }
    }

    /// The policy with this change.
    #[must_use]
    pub fn applied_to(&self, policy: Allowlist) -> Allowlist {
        match self {
            Self::Allow(rule) => policy.allowing(rule),
            Self::Deny(rule) => policy.denying(rule),
            Self::Restore(rule) => {
                let kept = policy.denied().iter().filter(|denied| *denied != rule).cloned().collect();
                policy.with_denied(kept)
            }
        }
    }
}

impl Allowlist {
    /// A policy from a program's rules. Rules of one kind keep their order; those for whole hosts
    /// come first.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by_key(Rule::kind);
        let judges_bodies = rules.iter().filter_map(Rule::as_url).any(UrlRule::judges_bodies);
        Self { rules, judges_bodies, ..Self::default() }
    }

    /// The same policy, with these rules in addition to its own.
    #[must_use]
    pub fn with_rules(self, rules: impl IntoIterator<Item = Rule>) -> Self {
        let own = self.own_rules().iter().cloned();
        self.with_own_rules(own.chain(rules).collect())
    }

    /// The same policy, which allows what `rule` covers: without it in `deny`, and with it, unless
    /// another rule covers it. Other rules of `deny` stay.
    #[must_use]
    pub fn allowing(self, rule: &Rule) -> Self {
        let kept = self.denied().iter().filter(|denied| *denied != rule).cloned().collect();
        let policy = self.with_denied(kept);
        if policy.rules.iter().any(|known| known.covers(rule)) {
            policy
        } else {
            policy.with_rules([rule.clone()])
        }
    }

    /// The same policy, which denies what `rule` covers, whatever allows it: other rules, presets, or
    /// an open shield. A rule for repositories denies all that begins with its path. See
    /// [`denied`](Self::denied) for what a rule matches.
    #[must_use]
    pub fn denying(self, rule: &Rule) -> Self {
        let rule = rule.clone().for_denial();
        if self.denied().contains(&rule) {
            return self;
        }
        let denied = self.denied().iter().cloned().chain([rule]).collect();
        self.with_denied(denied)
    }

    /// The same policy, with other rules instead of its own.
    pub(crate) fn with_own_rules(&self, rules: Vec<Rule>) -> Self {
        let mut policy = Self::new(rules).with_presets(self.apart.presets.iter().copied());
        policy.apart.clone_from(&self.apart);
        policy
    }

    /// The same policy, with these rules of `deny`, none of them for repositories.
    pub(crate) fn with_denied(mut self, rules: Vec<Rule>) -> Self {
        let plain = |rule: &Rule| rule.as_url().and_then(|rule| rule.path().plain());
        self.apart.plain = rules.iter().map(plain).collect();
        self.apart.denied = rules;
        self
    }

    /// The rules of `deny`, which are tried before all others.
    ///
    /// Since servers read paths in different ways, these match more than they would in another list:
    /// in either case, with and without the query (also an encoded one), `//` as `/`, without
    /// parameters of segments (`;v=1`) and a `/` at the end, decoded once and to the end. A wildcard
    /// of a host also covers addresses.
    #[must_use]
    pub fn denied(&self) -> &[Rule] {
        &self.apart.denied
    }

    /// The same policy, with the rules of these presets after its own. Presets that it already has
    /// are ignored.
    #[must_use]
    pub fn with_presets(mut self, presets: impl IntoIterator<Item = Preset>) -> Self {
        for preset in presets {
            if !self.apart.presets.contains(&preset) {
                self.rules.extend_from_slice(preset.rules());
                self.apart.presets.push(preset);
            }
        }
        self
    }

    /// Its presets.
    #[must_use]
    pub fn presets(&self) -> &[Preset] {
        &self.apart.presets
    }

    /// The same policy, with other settings for vendor tools.
    #[must_use]
    pub fn with_vendor_tools(mut self, vendor_tools: VendorTools) -> Self {
        self.apart.vendor_tools = vendor_tools;
        self
    }

    /// Its settings for tools that a model's vendor runs.
    #[must_use]
    pub fn vendor_tools(&self) -> &VendorTools {
        &self.apart.vendor_tools
    }

    /// The same policy, with another budget.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.apart.budget = budget;
        self
    }

    pub(crate) fn own_budget(&self) -> &Budget {
        &self.apart.budget
    }

    /// The policies outside of this one. See [`within`](Self::within).
    #[must_use]
    pub fn outer(&self) -> &[OuterPolicy] {
        &self.apart.outer
    }

    pub(crate) fn outer_mut(&mut self) -> &mut Vec<OuterPolicy> {
        &mut self.apart.outer
    }

    /// The rules in the order of evaluation: those for whole hosts first, those of presets last.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules that are not from presets.
    #[must_use]
    pub fn own_rules(&self) -> &[Rule] {
        let presets: usize = self.apart.presets.iter().map(|preset| preset.rules().len()).sum();
        let own = self.rules.len().saturating_sub(presets);
        self.rules.get(..own).unwrap_or_default()
    }

    /// Whether no rule allows anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether some rule is for repositories of `host`, so that pushes to it are judged separately.
    /// Rules of presets do not count: a preset never restricts other rules.
    #[must_use]
    pub fn has_repository_rules_for(&self, host: &HostName) -> bool {
        self.judges_bodies && self.own_url_rules_for(host).any(|rule| rule.git().is_some())
    }

    /// Whether requests to `host` can depend on their bodies.
    #[must_use]
    pub fn judges_bodies_of(&self, host: &HostName) -> bool {
        self.judges_bodies && self.own_url_rules_for(host).any(UrlRule::judges_bodies)
            || self.apart.vendor_tools.concerns(host)
            || self.outer().iter().any(|outer| outer.policy.judges_bodies_of(host))
    }

    fn own_url_rules_for(&self, host: &HostName) -> impl Iterator<Item = &UrlRule> {
        self.own_rules().iter().filter_map(Rule::as_url).filter(|rule| rule.host().matches(host))
    }

    /// The index of the first rule of `deny` that covers `request`.
    pub(crate) fn denied_at(&self, request: &Request) -> Option<usize> {
        let mut readings = None;
        let mut rules = self.apart.denied.iter().zip(&self.apart.plain);
        rules.position(|(rule, plain)| {
            rule.denies_some_path(request)
                && rule.as_url().is_none_or(|rule| {
                    let readings: &Vec<String> = readings.get_or_insert_with(|| request.target().readings());
                    let matches =
                        |path: &PathPattern| readings.iter().any(|reading| path.matches_in_any_case(reading));
                    rule.path().covers_every_path()
                        || matches(rule.path())
                        || plain.as_ref().is_some_and(matches)
                })
        })
    }

    fn denied_for(&self, host: &HostName) -> impl Iterator<Item = &Rule> {
        self.apart.denied.iter().filter(|rule| rule.denies_host(host))
    }

    /// Whether only some paths of `host` are denied, or refused by an outer policy.
    #[must_use]
    pub fn denies_paths_of(&self, host: &HostName) -> bool {
        self.denied_for(host).filter_map(Rule::as_url).any(|rule| !rule.path().covers_every_path())
            || self.outer().iter().any(|outer| outer.policy.has_path_rules_for(host))
    }

    pub(crate) fn domains(&self) -> impl Iterator<Item = &HostPattern> {
        self.rules.iter().filter_map(|rule| match rule {
            Rule::Domain(host) => Some(host),
            Rule::Url(_) => None,
        })
    }

    pub(crate) fn url_rules(&self) -> impl Iterator<Item = &UrlRule> {
        self.rules.iter().filter_map(Rule::as_url)
    }

    /// Whether some rule for `host` depends on the method, so that headers which override it must
    /// be removed.
    #[must_use]
    pub fn has_method_rules_for(&self, host: &HostName) -> bool {
        self.url_rules().any(|rule| !rule.allows_every_request() && rule.host().matches(host))
            || self.denied_for(host).any(|rule| rule.as_url().is_some())
            || self.apart.vendor_tools.concerns(host)
            || self.outer().iter().any(|outer| outer.policy.has_method_rules_for(host))
    }

    /// Whether only some paths of `host` are allowed, or some are judged separately, so that
    /// headers which name another path must be removed.
    #[must_use]
    pub fn has_path_rules_for(&self, host: &HostName) -> bool {
        let whole = self.domains().any(|domain| domain.matches(host));
        let mut limited =
            self.url_rules().filter(|rule| !rule.path().covers_every_path() || rule.judges_bodies());
        (!whole && limited.any(|rule| rule.host().matches(host)))
            || self.denies_paths_of(host)
            || self.judges_bodies_of(host)
    }
}

impl Serialize for Allowlist {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_vendor_tools = self.apart.vendor_tools != VendorTools::default();
        let has_budget = self.apart.budget != Budget::default();
        let has_presets = !self.apart.presets.is_empty();
        let has_denied = !self.apart.denied.is_empty();
        let has_outer = !self.apart.outer.is_empty();
        let more = [has_presets, has_denied, has_vendor_tools, has_budget, has_outer];
        let fields = 2 + more.into_iter().filter(|has| *has).count();
        let mut lists = serializer.serialize_struct("Allowlist", fields)?;
        if has_presets {
            lists.serialize_field("presets", &self.apart.presets)?;
        }
        if has_denied {
            lists.serialize_field(RuleKind::Deny.list(), &self.apart.denied)?;
        }
        lists.serialize_field(RuleKind::Domain.list(), &self.domains().collect::<Vec<_>>())?;
        let own = self.own_rules().iter().filter_map(Rule::as_url);
        lists.serialize_field(RuleKind::Url.list(), &own.collect::<Vec<_>>())?;
        if has_vendor_tools {
            lists.serialize_field("vendor_tools", &self.apart.vendor_tools)?;
        }
        if has_budget {
            lists.serialize_field("budget", &self.apart.budget)?;
        }
        if has_outer {
            lists.serialize_field("within", &self.apart.outer)?;
        }
        lists.end()
    }
}
