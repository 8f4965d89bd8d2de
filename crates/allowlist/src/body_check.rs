//! Decisions that depend on a request's body.

use crate::denial::Denial;
use crate::git::LIMIT;
use crate::git::PushCheck;
use crate::git::Pushes;
use crate::matched::Match;
use crate::vendor::BODY_LIMIT;
use crate::vendor::VendorCheck;
use crate::vendor_tools::VendorTool;

/// Decides about a request whose head is allowed, by the beginning of its body or by all of it.
///
/// It is given the body as far as it has come, again and again, and looks at each byte once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyCheck(Check);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Check {
    /// The refs that a push updates, and the rules that it may be allowed by.
    Push(PushCheck, Vec<Match>),
    /// The tools that a model's vendor would run.
    Vendor(Box<VendorCheck>, Match),
}

/// How far a [`BodyCheck`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More of the body is needed.
    More,
    /// The request is allowed.
    Allow(Admitted),
}

/// What is allowed of a request whose body was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admitted {
    /// The rule that allows it.
    pub rule: Match,
    /// What must be sent in the place of the whole body.
    pub body: Option<Vec<u8>>,
    /// Tools of a model's vendor that are not in that body any more.
    pub removed: Vec<VendorTool>,
    /// What must be proven from the rest of the body before the end of that is sent.
    pub fast_forwards: Option<Pushes>,
}

impl BodyCheck {
    pub(crate) fn push(check: PushCheck, rules: Vec<Match>) -> Self {
        Self(Check::Push(check, rules))
    }

    pub(crate) fn vendor(check: VendorCheck, rule: Match) -> Self {
        Self(Check::Vendor(Box::new(check), rule))
    }

    /// How many bytes of the body may have to be read before the decision, at most.
    #[must_use]
    pub fn limit(&self) -> usize {
        match &self.0 {
            Check::Push(..) => LIMIT,
            Check::Vendor(..) => BODY_LIMIT,
        }
    }

    /// What the decision depends on, as in "allowed, if …".
    #[must_use]
    pub fn condition(&self) -> String {
        match &self.0 {
            Check::Push(check, _) => check.condition(),
            Check::Vendor(check, _) => check.condition(),
        }
    }

    /// The rule that allows the request if the body does; where there are several, the first.
    #[must_use]
    pub fn rule(&self) -> Option<&Match> {
        match &self.0 {
            Check::Push(_, rules) => rules.first(),
            Check::Vendor(_, rule) => Some(rule),
        }
    }

    /// Looks on. `so_far` is the body from its first byte: what it was the last time, and what has
    /// come since. `ended` if nothing follows.
    ///
    /// # Errors
    ///
    /// A denial: of what the body asks for, or of a body that cannot be read or is too long to be.
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
