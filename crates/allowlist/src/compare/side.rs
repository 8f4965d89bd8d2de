//! The rules of one of two policies, by host.

use std::collections::HashMap;
use std::collections::HashSet;

use crate::decision::Decision;
use crate::git::GitRule;
use crate::host::HostName;
use crate::host_pattern::HostPattern;
use crate::matched::Match;
use crate::policy::Allowlist;
use crate::preset::Preset;
use crate::rule::Allowed;
use crate::rule::Rule;
use crate::vendor_tools::VendorTools;

/// A policy. Its rules are known by their positions: first those that allow, then those of `deny`.
pub(super) struct Side<'a> {
    policy: &'a Allowlist,
    rules: Vec<(Match, &'a Rule)>,
    /// The number of rules that allow.
    allowing: usize,
    /// The number of rules of its own that allow.
    own: usize,
    /// The positions of the rules for exact hosts.
    exact: HashMap<&'a str, Vec<usize>>,
    /// The positions of all others.
    wild: Vec<usize>,
    /// The positions of rules that the other policy does not have, in the same list.
    pub(super) unique: HashSet<usize>,
}

/// The part of a policy that applies to one host, as policies which decide about it alike.
pub(super) struct Part {
    /// With `deny` and the settings for vendor tools.
    pub(super) whole: Allowlist,
    /// Without them.
    pub(super) free: Allowlist,
    /// Without them and the presets.
    pub(super) own: Allowlist,
    /// The positions of the rules, in the policy as a whole.
    positions: Vec<usize>,
    /// The positions of the rules of `deny`.
    pub(super) denied: Vec<usize>,
}

impl<'a> Side<'a> {
    pub(super) fn new(policy: &'a Allowlist) -> Self {
        let rules: Vec<_> = policy.places().chain(policy.denied_places()).collect();
        let mut side = Self {
            policy,
            allowing: policy.rules().len(),
            own: policy.own_rules().len(),
            rules,
            exact: HashMap::new(),
            wild: Vec::new(),
            unique: HashSet::new(),
        };
        for (position, (_, rule)) in side.rules.iter().enumerate() {
            if rule.host().is_exact() {
                side.exact.entry(rule.host().as_str()).or_default().push(position);
            } else {
                side.wild.push(position);
            }
        }
        side
    }

    /// The kind of the list of a rule: own, preset, `deny`.
    fn list(&self, position: usize) -> usize {
        usize::from(position >= self.own) + usize::from(position >= self.allowing)
    }

    /// Finds the rules that `other` does not have in the same list. The order of rules does not
    /// change what they allow together.
    pub(super) fn compare_with(&mut self, other: &Self) {
        let key = |side: &Self, position, rule: &Rule| (side.list(position), format!("{rule:?}"));
        let known: HashSet<_> =
            other.rules.iter().enumerate().map(|(at, (_, rule))| key(other, at, rule)).collect();
        let rules = self.rules.iter().enumerate();
        self.unique = rules
            .filter(|(at, (_, rule))| !known.contains(&key(self, *at, rule)))
            .map(|(at, _)| at)
            .collect();
    }

    pub(super) fn matched(&self, position: usize) -> Option<&Match> {
        self.rules.get(position).map(|(matched, _)| matched)
    }

    pub(super) fn rule(&self, position: usize) -> Option<&'a Rule> {
        self.rules.get(position).map(|(_, rule)| *rule)
    }

    /// The rights to repositories of a rule that allows.
    pub(super) fn git(&self, position: usize) -> Option<&'a GitRule> {
        self.rule(position).filter(|_| !self.is_of_deny(position))?.git()
    }

    /// Whether it gives rights to repositories, and the other policy does not have it.
    pub(super) fn is_other_git(&self, position: usize) -> bool {
        self.unique.contains(&position) && self.git(position).is_some()
    }

    /// Whether one of these is a rule of its own for repositories, so that only such allow pushes.
    pub(super) fn restricts_pushes(&self, active: &[usize]) -> bool {
        active.iter().any(|at| *at < self.own && self.git(*at).is_some())
    }

    pub(super) fn is_of_deny(&self, position: usize) -> bool {
        position >= self.allowing
    }

    pub(super) fn is_of_preset(&self, position: usize) -> bool {
        self.list(position) == 1
    }

    pub(super) fn allowing(&self) -> std::ops::Range<usize> {
        0..self.allowing
    }

    pub(super) fn denied(&self) -> std::ops::Range<usize> {
        self.allowing..self.rules.len()
    }

    pub(super) fn exact_hosts(&self) -> impl Iterator<Item = &'a str> {
        self.exact.keys().copied()
    }

    pub(super) fn wild_hosts(&self) -> impl Iterator<Item = (usize, &'a HostPattern)> {
        self.wild.iter().filter_map(|at| Some((*at, self.rule(*at)?.host())))
    }

    /// The number of patterns that each host is compared with.
    pub(super) fn host_patterns(&self) -> usize {
        1 + self.wild.len() + self.vendor_tools().hosts.len()
    }

    /// The size of a rule, with its lists.
    pub(super) fn weight(&self, position: usize) -> usize {
        let lists = self.rule(position).and_then(Rule::as_url).map(|rule| match rule.allowed() {
            Allowed::Everything => 0,
            Allowed::Methods(methods) => methods.len(),
            Allowed::Git(git) => git.push.len(),
        });
        1 + lists.unwrap_or_default()
    }

    pub(super) fn vendor_tools(&self) -> &'a VendorTools {
        self.policy.vendor_tools()
    }

    /// The positions of the rules for `host`.
    pub(super) fn active(&self, host: &HostName) -> Vec<usize> {
        let mut active: Vec<usize> = self.exact.get(host.as_str()).cloned().unwrap_or_default();
        let matches = |at: &usize, rule: &Rule| {
            if self.is_of_deny(*at) { rule.denies_host(host) } else { rule.host().matches(host) }
        };
        active.extend(self.wild.iter().filter(|at| self.rule(**at).is_some_and(|rule| matches(at, rule))));
        active.sort_unstable();
        active
    }

    /// The rules at these positions, for `host`.
    pub(super) fn part(&self, host: &HostName, active: &[usize]) -> Part {
        let rules = |range: std::ops::Range<usize>| {
            let positions = active.iter().copied().filter(move |at| range.contains(at));
            positions.filter_map(|at| Some((at, self.rule(at)?.clone())))
        };
        let (mut positions, own): (Vec<usize>, Vec<Rule>) = rules(0..self.own).unzip();
        let mut presets: Vec<Preset> = Vec::new();
        let mut first = self.own;
        for preset in self.policy.presets() {
            let all = first..first + preset.rules().len();
            first = all.end;
            if active.iter().any(|at| all.contains(at)) {
                presets.push(*preset);
                positions.extend(all);
            }
        }
        let (denied, denied_rules) = rules(self.denied()).unzip();
        let own = Allowlist::new(own);
        let free = own.clone().with_presets(presets).with_vendor_tools(VendorTools::unrestricted());
        let tools = self.vendor_tools();
        let named = tools.hosts.iter().find(|pattern| pattern.matches(host));
        let tools = VendorTools { hosts: named.into_iter().cloned().collect(), ..*tools };
        let whole = free.clone().with_vendor_tools(tools).with_denied(denied_rules);
        Part { whole, free, own: own.with_vendor_tools(VendorTools::unrestricted()), positions, denied }
    }
}

impl Part {
    /// The position of a rule by which a part of this one decides.
    pub(super) fn position(&self, rule: &Match) -> Option<usize> {
        let at = self.whole.places().position(|(place, _)| place == *rule)?;
        self.positions.get(at).copied()
    }

    /// The position of the rule that allows the head of a request.
    pub(super) fn allows(&self, decision: &Decision) -> Option<usize> {
        match decision {
            Decision::Allow(rule) => self.position(rule),
            Decision::NeedsBody(check) => self.position(check.rule()?),
            Decision::Deny(_) => None,
        }
    }
}
