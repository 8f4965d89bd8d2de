//! What the policy says of a request.

use crate::advice;
use crate::body_check::BodyCheck;
use crate::decision::Decision;
use crate::git::PushCheck;
use crate::git::could_push;
use crate::matched::Match;
use crate::policy::Allowlist;
use crate::request::Request;
use crate::rule::Reach;
use crate::rule::Rule;
use crate::vendor::VendorCheck;

impl Allowlist {
    /// Finds the first rule that allows `request`, or says what comes nearest to allowing it.
    ///
    /// On a host with rules for repositories, nothing but these allows a push.
    pub fn decide(&self, request: &Request) -> Decision {
        let push = self.is_push(request);
        let mut nearest = Reach::Nothing;
        for (position, rule) in
            self.rules().iter().enumerate().filter(|(_, rule)| !push || rule.git().is_some())
        {
            match rule.reach(request) {
                Reach::All => return self.allow(self.matched(position, rule), request),
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

    /// Whether the rules alone decide about `request`, also where all else of the web is open for a while: pushes to a host with rules for
    /// repositories, and requests to a vendor's model where a rule names its host.
    #[must_use]
    pub fn stays_judged(&self, request: &Request) -> bool {
        let host = request.host();
        let is_named = || self.rules().iter().any(|rule| rule.host().matches(host));
        self.is_push(request) || (self.vendor_tools().concerns(host) && is_named())
    }

    /// Whether `request` could push to a host with rules for repositories, so that nothing but these allows it.
    fn is_push(&self, request: &Request) -> bool {
        self.has_repository_rules_for(request.host()) && could_push(request.target())
    }

    /// What a rule allows whole can still name tools that a model's vendor runs.
    fn allow(&self, rule: Match, request: &Request) -> Decision {
        match self.vendor_api(request) {
            Ok(None) => Decision::Allow(rule),
            Ok(Some(api)) => {
                Decision::NeedsBody(BodyCheck::vendor(VendorCheck::new(api, self.clone()), rule))
            }
            Err(denial) => Decision::Deny(denial),
        }
    }

    /// All rules for the repository count, since each allows some refs.
    fn push_check(&self, request: &Request) -> BodyCheck {
        let rules = self.rules().iter().enumerate().filter(|(_, rule)| rule.reach(request) == Reach::Head);
        let rules =
            rules.filter_map(|(position, rule)| Some((self.matched(position, rule), rule.git()?.clone())));
        let (matches, rules) = rules.unzip();
        BodyCheck::push(PushCheck::new(rules, request.host().to_string()), matches)
    }

    fn matched(&self, position: usize, rule: &Rule) -> Match {
        let kind = rule.kind();
        let before = self.rules().partition_point(|other| other.kind() < kind);
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
}

#[cfg(test)]
mod tests;
