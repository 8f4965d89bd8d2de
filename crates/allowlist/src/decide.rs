//! Decisions of the policy about requests.

use crate::advice;
use crate::body_check::BodyCheck;
use crate::decision::Decision;
use crate::denial::Denial;
use crate::git::could_push;
use crate::matched::Match;
use crate::policy::Allowlist;
use crate::preset::Preset;
use crate::request::Request;
use crate::rule::Reach;
use crate::rule::Rule;
use crate::rule::RuleKind;
use crate::vendor::VendorCheck;
use crate::vendor::query_has_key;

impl Allowlist {
    /// Finds the first rule that allows `request`, or reports which rules come nearest. Nothing is
    /// allowed that a rule of `deny` covers or an outer policy refuses.
    ///
    /// On a host with rules for repositories, only these allow a push.
    pub fn decide(&self, request: &Request) -> Decision {
        let mut checks = Vec::new();
        for outer in self.outer() {
            match outer.policy.decide(request) {
                Decision::Allow(_) => {}
                Decision::NeedsBody(check) => checks.push(check.outside(&outer.document)),
                Decision::Deny(denial) => return Decision::Deny(denial.outside(&outer.document)),
            }
        }
        let decision = match self.denies(request) {
            Some(denial) => Decision::Deny(denial),
            None => self.decide_by_rules(request, self.is_push(request)),
        };
        match decision {
            Decision::Allow(rule) if !checks.is_empty() => {
                Decision::NeedsBody(BodyCheck::allowed(rule).and(checks))
            }
            Decision::NeedsBody(check) => Decision::NeedsBody(check.and(checks)),
            decision => decision,
        }
    }

    /// The decision regardless of `deny`; if it is a `push`, only by rules for repositories.
    pub(crate) fn decide_by_rules(&self, request: &Request, push: bool) -> Decision {
        let mut nearest = Reach::Nothing;
        for (position, rule) in
            self.rules().iter().enumerate().filter(|(_, rule)| !push || rule.git().is_some())
        {
            match self.reach(position, rule, request) {
                Reach::All => return self.allow(self.matched(position, rule), request),
                Reach::Head => return Decision::NeedsBody(self.body_check(request)),
                reach => nearest = nearest.max(reach),
            }
        }
        Decision::Deny(if push {
            advice::no_push(nearest, request)
        } else {
            advice::denial(nearest, request)
        })
    }

    /// The denial by the first rule of `deny` that covers `request`.
    #[must_use]
    pub fn denies(&self, request: &Request) -> Option<Denial> {
        Some(Denial::by_rule(self.denied_at(request)?, request.host()))
    }

    /// Each rule of `deny` with its position.
    pub fn denied_places(&self) -> impl Iterator<Item = (Match, &Rule)> {
        let denied = self.denied().iter().enumerate();
        denied.map(|(index, rule)| (named(rule, RuleKind::Deny, index, None), rule))
    }

    /// Rules of presets are strict: the path is matched without the query, and a query with a key
    /// of another account never matches.
    fn reach(&self, position: usize, rule: &Rule, request: &Request) -> Reach {
        let reach = rule.reach(request);
        let strict = rule.as_url().filter(|rule| reach == Reach::All && rule.git().is_none());
        match strict {
            Some(rule) if position >= self.own_rules().len() => {
                let path = rule.path();
                if path.matches_separately(request.target()) && !query_has_key(request) {
                    Reach::All
                } else if path.matches_without_query(request.target()) {
                    Reach::PathWithoutQuery
                } else {
                    Reach::Host
                }
            }
            _ => reach,
        }
    }

    /// Whether the rules alone decide about `request`, even while the rest of the web is open:
    /// requests that a rule of `deny` covers or an outer policy does not allow by their heads alone,
    /// pushes to a host with rules for repositories, and requests to a vendor's model if a rule names
    /// its host.
    #[must_use]
    pub fn stays_judged(&self, request: &Request) -> bool {
        let host = request.host();
        let is_named = || self.rules().iter().any(|rule| rule.host().matches(host));
        self.denies(request).is_some()
            || self.outer().iter().any(|outer| !outer.policy.decide(request).is_allowed())
            || self.is_push(request)
            || (self.vendor_tools().concerns(host) && is_named())
    }

    /// Whether `request` could push to a host with rules for repositories, so that only these can
    /// allow it.
    fn is_push(&self, request: &Request) -> bool {
        self.has_repository_rules_for(request.host()) && could_push(request.target())
    }

    /// A request that a rule allows entirely can still name vendor tools.
    fn allow(&self, rule: Match, request: &Request) -> Decision {
        match self.vendor_api(request) {
            Ok(None) => Decision::Allow(rule),
            Ok(Some(api)) => {
                Decision::NeedsBody(BodyCheck::vendor(VendorCheck::new(api, self.clone()), rule))
            }
            Err(denial) => Decision::Deny(denial),
        }
    }

    /// The check by all rules that allow the head of `request`.
    fn body_check(&self, request: &Request) -> BodyCheck {
        let rules = self.rules().iter().enumerate().filter(|(_, rule)| rule.reach(request) == Reach::Head);
        BodyCheck::by_rules(rules.map(|(position, rule)| (self.matched(position, rule), rule)), request)
    }

    /// Each rule with its position, in the order of evaluation.
    pub fn places(&self) -> impl Iterator<Item = (Match, &Rule)> {
        self.rules().iter().enumerate().map(|(position, rule)| (self.matched(position, rule), rule))
    }

    fn matched(&self, position: usize, rule: &Rule) -> Match {
        let kind = rule.kind();
        let own = self.own_rules();
        let (preset, index) = match position.checked_sub(own.len()) {
            Some(position) => self.of_preset(position),
            None => (None, position.saturating_sub(own.partition_point(|other| other.kind() < kind))),
        };
        named(rule, kind, index, preset)
    }

    /// The preset of a rule and its position there, by its position among the rules of all presets.
    fn of_preset(&self, position: usize) -> (Option<Preset>, usize) {
        let mut index = position;
        for preset in self.presets() {
            match index.checked_sub(preset.rules().len()) {
                Some(rest) => index = rest,
                None => return (Some(*preset), index),
            }
        }
        (None, index)
    }
}

fn named(rule: &Rule, kind: RuleKind, index: usize, preset: Option<Preset>) -> Match {
    Match {
        kind,
        index,
        preset: preset.map(|preset| preset.name().to_owned()),
        host: rule.host().to_string(),
        path: rule.as_url().map(|rule| rule.path().to_string()),
    }
}

#[cfg(test)]
mod tests;
