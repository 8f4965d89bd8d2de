//! Decisions that depend on a request body.

use crate::denial::Denial;
use crate::git::LIMIT;
use crate::git::PushCheck;
use crate::git::Pushes;
use crate::matched::Match;
use crate::request::Request;
use crate::rule::Rule;
use crate::vendor::BODY_LIMIT;
use crate::vendor::VendorCheck;
use crate::vendor_tools::VendorTool;

/// Decides about a request whose head is allowed, by the beginning of its body or by all of it.
///
/// It is called repeatedly with the body received so far, and examines each byte once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyCheck(Check);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Check {
    /// The refs that a push updates, and the rules that may allow it.
    Push(PushCheck, Vec<Match>),
    /// The tools that a model's vendor would run.
    Vendor(Box<VendorCheck>, Match),
}

/// The progress of a [`BodyCheck`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More of the body is needed.
    More,
    /// The request is allowed.
    Allow(Admitted),
}

/// The allowed part of a request whose body was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admitted {
    /// The rule that allows it.
    pub rule: Match,
    /// Replacement of the whole body.
    pub body: Option<Vec<u8>>,
    /// Vendor tools that were removed from that body.
    pub removed: Vec<VendorTool>,
    /// Updates that the rest of the body must prove before its end is sent.
    pub fast_forwards: Option<Pushes>,
}

impl BodyCheck {
    /// The check by the rules that allow the head of `request`: all of these count, since each
    /// allows some refs.
    pub(crate) fn by_rules<'a>(rules: impl Iterator<Item = (Match, &'a Rule)>, request: &Request) -> Self {
        let (matches, rules) = rules.filter_map(|(at, rule)| Some((at, rule.git()?.clone()))).unzip();
        Self(Check::Push(PushCheck::new(rules, request.host().to_string()), matches))
    }

    pub(crate) fn vendor(check: VendorCheck, rule: Match) -> Self {
        Self(Check::Vendor(Box::new(check), rule))
    }

    /// Maximum number of bytes of the body that the decision needs.
    #[must_use]
    pub fn limit(&self) -> usize {
        match &self.0 {
            Check::Push(..) => LIMIT,
            Check::Vendor(..) => BODY_LIMIT,
        }
    }

    /// The condition of the decision, as in "allowed, if …".
    #[must_use]
    pub fn condition(&self) -> String {
        match &self.0 {
            Check::Push(check, _) => check.condition(),
            Check::Vendor(check, _) => check.condition(),
        }
    }

    /// The rule that allows the request if the body does; the first of several.
    #[must_use]
    pub fn rule(&self) -> Option<&Match> {
        match &self.0 {
            Check::Push(_, rules) => rules.first(),
            Check::Vendor(_, rule) => Some(rule),
        }
    }

    /// Continues the check. `so_far` is the body from its first byte: an extension of the previous
    /// call's. `ended` if nothing follows.
    ///
    /// # Errors
    ///
    /// A denial of the body's content, or of an unreadable or too long body.
    pub fn advance(&mut self, so_far: &[u8], ended: bool) -> Result<Step, Denial> {
        match &mut self.0 {
            Check::Push(check, rules) => {
                let Some((position, fast_forwards)) = check.advance(so_far, ended)? else {
                    return Ok(Step::More);
                };
                let Some(rule) = rules.get(position).cloned() else {
                    return Err(Denial::body("no rule allows it", "ask the operator"));
                };
                Ok(Step::Allow(Admitted { rule, body: None, removed: Vec::new(), fast_forwards }))
            }
            Check::Vendor(..) if !ended => Ok(Step::More),
            Check::Vendor(check, rule) => {
                let (body, removed) = check.decide(so_far)?;
                Ok(Step::Allow(Admitted { rule: rule.clone(), body, removed, fast_forwards: None }))
            }
        }
    }
}
