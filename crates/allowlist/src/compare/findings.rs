//! The findings about two policies.

use std::collections::BTreeMap;
use std::collections::HashSet;

use super::comparison::Difference;
use super::comparison::Doubtful;
use super::comparison::Example;
use super::comparison::Undecided;
use super::side::Side;
use crate::pattern::Effort;
use crate::policy::Allowlist;
use crate::rule_overlap::hosts_may_meet;
use crate::vendor_tools::vendor_hosts;

/// The work for one comparison, in words of states: at most a few seconds.
const EFFORT: usize = 100_000_000;

/// The findings so far. Lists are of the old policy and of the new one, by the positions of
/// their rules.
pub(super) struct Findings<'a> {
    pub(super) sides: [Side<'a>; 2],
    /// Requests that only this policy allows, or for a rule of `deny`, that only this policy does not.
    pub(super) examples: [BTreeMap<usize, Example>; 2],
    /// Rules for which there is perhaps such a request.
    pub(super) doubts: [BTreeMap<usize, Doubtful>; 2],
    pub(super) effort: Effort,
    /// The sets of rules for which a host was searched, with a method, and whether it was a vendor's.
    pub(super) seen: HashSet<([Vec<usize>; 2], String, bool)>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(old: &'a Allowlist, new: &'a Allowlist) -> Self {
        let mut sides = [Side::new(old), Side::new(new)];
        let [old, new] = &mut sides;
        old.compare_with(new);
        new.compare_with(old);
        Self {
            sides,
            examples: Default::default(),
            doubts: Default::default(),
            effort: Effort::new(EFFORT),
            seen: HashSet::new(),
        }
    }

    /// Doubts the rules that may cover hosts of models' vendors if rules for repositories differ there:
    /// whether the body of a push decides or the vendor's endpoint depends on more than the rules.
    pub(super) fn doubt_vendors(&mut self) {
        let vendors: Vec<_> = vendor_hosts().collect();
        let named = self.sides.iter().flat_map(|side| &side.vendor_tools().hosts);
        let vendors: Vec<_> = vendors.iter().chain(named).collect();
        let rules: usize = self.sides.iter().map(|side| side.allowing().len()).sum();
        if !self.effort.spend(rules.saturating_mul(vendors.len())) {
            return;
        }
        let is_of_vendor = |side: &Side<'_>, at: usize| {
            side.rule(at).is_some_and(|rule| vendors.iter().any(|host| hosts_may_meet(rule.host(), host)))
        };
        let differs =
            |side: &Side<'_>| side.allowing().any(|at| side.is_other_git(at) && is_of_vendor(side, at));
        if self.sides.iter().any(differs) {
            for (side, doubts) in self.sides.iter().zip(&mut self.doubts) {
                let rules = side.allowing().filter(|at| is_of_vendor(side, *at));
                doubts.extend(rules.map(|at| (at, Doubtful::VendorPush)));
            }
        }
    }

    /// Whether there is an example for each of these rules, by side and position.
    pub(super) fn has_all(&self, rules: &[(usize, usize)]) -> bool {
        rules.iter().all(|(side, at)| self.examples.get(*side).is_some_and(|known| known.contains_key(at)))
    }

    /// Marks all rules that could decide alone as undecided.
    pub(super) fn give_up(&mut self) {
        let is_git = |side: &Side<'_>| side.unique.iter().any(|at| side.is_other_git(*at));
        let has_git = self.sides.iter().any(is_git);
        for (side, doubts) in self.sides.iter().zip(&mut self.doubts) {
            for at in side.allowing().filter(|at| has_git || side.unique.contains(at)) {
                doubts.entry(at).or_insert(Doubtful::TooLarge);
            }
        }
    }

    /// The rules of one side that make a difference, or that only it has in `deny`.
    pub(super) fn differences(&self, which: usize, of_deny: bool) -> Vec<Difference> {
        let Some((side, examples)) = self.sides.get(which).zip(self.examples.get(which)) else {
            return Vec::new();
        };
        let rules = if of_deny { side.denied() } else { side.allowing() };
        let differences = rules.filter_map(|at| {
            let example = examples.get(&at).cloned();
            let is_listed = example.is_some() || of_deny && side.unique.contains(&at);
            is_listed.then(|| Some(Difference { rule: side.matched(at)?.clone(), example }))?
        });
        differences.collect()
    }

    pub(super) fn undecided(&self) -> Vec<Undecided> {
        let mut undecided = Vec::new();
        for (which, allows) in [(1, true), (0, false)] {
            let parts = self.sides.get(which).zip(self.examples.get(which)).zip(self.doubts.get(which));
            let Some(((side, examples), doubts)) = parts else { continue };
            for (at, reason) in doubts.iter().filter(|(at, _)| !examples.contains_key(at)) {
                if let Some(rule) = side.matched(*at) {
                    undecided.push(Undecided { rule: rule.clone(), allows, reason: *reason });
                }
            }
        }
        undecided
    }
}
