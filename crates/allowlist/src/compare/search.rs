//! The hosts that rules of one policy alone cover, one for each combination of rules.

use std::collections::BTreeSet;
use std::collections::HashSet;
use std::ops::ControlFlow;

use super::comparison::Change;
use super::comparison::Comparison;
use super::findings::Findings;
use super::languages::Names;
use super::side::Side;
use super::site;
use super::site::Site;
use crate::host::HostName;
use crate::host::LOOPBACK;
use crate::host_pattern::HostPattern;
use crate::pattern::Product;
use crate::pattern::Scope;
use crate::pattern::Sequence;
use crate::policy::Allowlist;
use crate::vendor_tools::Reach;
use crate::vendor_tools::VendorTool;

impl Allowlist {
    /// The difference of `new` and this policy, decided on the rules: what is neither listed nor listed
    /// as undecided does not differ. Outer policies are not compared.
    #[must_use]
    pub fn compare(&self, new: &Self) -> Comparison {
        let mut findings = Findings::new(self, new);
        findings.doubt_vendors();
        findings.hosts();
        if findings.effort.is_spent() {
            findings.give_up();
        }
        let limits = |policy: &Self| {
            let reach = |tool| policy.vendor_tools().reach(tool) == Some(Reach::Policy);
            VendorTool::ALL.into_iter().any(reach)
        };
        let is_other = findings.sides.iter().any(|side| !side.unique.is_empty());
        Comparison {
            newly_allowed: findings.differences(1, false),
            newly_blocked: findings.differences(0, false),
            newly_denied: findings.differences(1, true),
            no_longer_denied: findings.differences(0, true),
            undecided: findings.undecided(),
            vendor_tools: Change::between(self.vendor_tools(), new.vendor_tools()),
            budget: Change::between(self.own_budget(), new.own_budget()),
            bodies_may_differ: is_other && (limits(self) || limits(new)),
        }
    }
}

impl<'a> Findings<'a> {
    fn hosts(&mut self) {
        let exact: BTreeSet<&'a str> = self.sides.iter().flat_map(Side::exact_hosts).collect();
        for host in &exact {
            // The hosts of rules are valid names.
            if let Ok(host) = HostName::from_wire(host.as_bytes()) {
                self.host(&host);
            }
        }
        let mut patterns: Vec<&'a HostPattern> = Vec::new();
        let mut unique: HashSet<&'a str> = HashSet::new();
        let mut known = HashSet::new();
        for side in &self.sides {
            for (at, host) in side.wild_hosts() {
                if known.insert(host.as_str()) {
                    patterns.push(host);
                }
                if side.unique.contains(&at) {
                    unique.insert(host.as_str());
                }
            }
        }
        if unique.is_empty() {
            return;
        }
        let only = patterns.iter().filter(|host| unique.contains(host.as_str()));
        let only: Vec<_> = only.map(|host| host.pattern()).collect();
        if !self.effort.spend((exact.len() + LOOPBACK.len()) * only.len()) {
            return;
        }
        let names = exact.into_iter().chain(LOOPBACK);
        let names = Names::except(names.filter(|name| only.iter().any(|pattern| pattern.matches(name))));
        let mut sequences: Vec<_> =
            patterns.iter().map(|host| (Sequence::of(host.pattern()), Scope::Whole)).collect();
        if !known.contains("*.localhost") {
            sequences.push((Sequence::compile("*.localhost"), Scope::Whole));
        }
        if !self.effort.spend(Product::cost(&sequences)) {
            return;
        }
        // No two characters of names are the same to all of `names`.
        let characters = ('a'..='z').chain('0'..='9').chain(['-', '_', '.']);
        let product = Product::new(&sequences, characters.map(|character| (character, character)));
        let is_unique = |at: usize| patterns.get(at).is_some_and(|host| unique.contains(host.as_str()));
        let needed = product.bits_of(&sequences, is_unique);
        let mut hosts = Vec::new();
        let mut seen = HashSet::new();
        product.explore(&names, Some(&needed), &self.effort, |key, text| {
            if !seen.contains(key) {
                seen.insert(key.to_vec());
                hosts.push(text());
            }
            ControlFlow::Continue(())
        });
        for host in hosts {
            match HostName::from_wire(host.as_bytes()) {
                Ok(host) => self.host(&host),
                // The shortest name may be longer than DNS allows, and others not.
                Err(_) => self.give_up(),
            }
        }
    }

    fn host(&mut self, host: &HostName) {
        if !self.effort.spend(self.sides.iter().map(Side::host_patterns).sum()) || host.is_loopback() {
            return;
        }
        let active = self.sides.each_ref().map(|side| side.active(host));
        let both = || {
            self.sides.iter().zip(&active).flat_map(|(side, active)| active.iter().map(move |at| (side, *at)))
        };
        if !both().any(|(side, at)| side.unique.contains(&at)) {
            return;
        }
        let is_of_vendor = self.sides.iter().any(|side| side.vendor_tools().concerns(host));
        if is_of_vendor && both().any(|(side, at)| side.is_other_git(at)) {
            return;
        }
        let weight: usize = both().map(|(side, at)| side.weight(at)).sum();
        let methods = site::methods(both().filter_map(|(side, at)| side.rule(at)?.as_url()));
        for method in methods {
            if !self.effort.spend(weight.saturating_mul(50)) {
                return;
            }
            let part = |(side, active): (&Side<'a>, &Vec<usize>)| -> Vec<usize> {
                let covers = |at: &usize| {
                    // Rules for repositories restrict pushes by any method.
                    side.git(*at).is_some()
                        || side.rule(*at).is_some_and(|rule| site::covers_method(rule, &method))
                };
                active.iter().copied().filter(covers).collect()
            };
            let [old, new] = &self.sides;
            let [old_active, new_active] = &active;
            let active = [part((old, old_active)), part((new, new_active))];
            let is_new = self.seen.insert((active.clone(), method.to_string(), is_of_vendor));
            if is_new && let Some(site) = Site::new(self, host, active, &method) {
                site.search();
            }
        }
    }
}
