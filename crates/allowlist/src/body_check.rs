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
pub struct BodyCheck {
    /// The policy's own, then those of outer policies: all must allow the body.
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    check: Check,
    /// The document of an outer policy.
    document: Option<String>,
    /// The result, while other parts need more of the body.
    admitted: Option<Admitted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Check {
    /// The head suffices.
    Nothing(Match),
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
        Self::new(Check::Push(PushCheck::new(rules, request.host().to_string()), matches))
    }

    pub(crate) fn vendor(check: VendorCheck, rule: Match) -> Self {
        Self::new(Check::Vendor(Box::new(check), rule))
    }

    /// The check of a request whose head suffices.
    pub(crate) fn allowed(rule: Match) -> Self {
        Self::new(Check::Nothing(rule))
    }

    fn new(check: Check) -> Self {
        Self { parts: vec![Part { check, document: None, admitted: None }] }
    }

    /// The same check, of an outer policy.
    pub(crate) fn outside(mut self, document: &str) -> Self {
        for part in &mut self.parts {
            part.document.get_or_insert_with(|| document.to_owned());
        }
        self
    }

    /// The same check, and those of outer policies.
    pub(crate) fn and(mut self, outer: Vec<Self>) -> Self {
        self.parts.extend(outer.into_iter().flat_map(|outer| outer.parts));
        self
    }

    /// Whether the refs of a push decide.
    pub(crate) fn is_of_push(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.check, Check::Push(..)))
    }

    /// Maximum number of bytes of the body that the decision needs.
    #[must_use]
    pub fn limit(&self) -> usize {
        let limits = self.parts.iter().map(|part| match &part.check {
            Check::Nothing(_) => 0,
            Check::Push(..) => LIMIT,
            Check::Vendor(..) => BODY_LIMIT,
        });
        limits.max().unwrap_or_default()
    }

    /// The condition of the decision, as in "allowed, if …".
    #[must_use]
    pub fn condition(&self) -> String {
        let conditions = self.parts.iter().filter_map(|part| {
            let condition = match &part.check {
                Check::Nothing(_) => return None,
                Check::Push(check, _) => check.condition(),
                Check::Vendor(check, _) => check.condition(),
            };
            Some(match &part.document {
                Some(document) => format!("{condition} (by {document})"),
                None => condition,
            })
        });
        conditions.collect::<Vec<_>>().join(", and ")
    }

    /// The rule that allows the request if the body does; the first of several.
    #[must_use]
    pub fn rule(&self) -> Option<&Match> {
        match &self.parts.first()?.check {
            Check::Push(_, rules) => rules.first(),
            Check::Nothing(rule) | Check::Vendor(_, rule) => Some(rule),
        }
    }

    /// Continues the check. `so_far` is the body from its first byte: an extension of the previous
    /// call's. `ended` if nothing follows.
    ///
    /// # Errors
    ///
    /// A denial of the body's content, or of an unreadable or too long body.
    pub fn advance(&mut self, so_far: &[u8], ended: bool) -> Result<Step, Denial> {
        let mut replaced = None;
        for part in &mut self.parts {
            if part.admitted.is_none() {
                // Only a complete body is replaced.
                let body = replaced.as_deref().unwrap_or(so_far);
                part.admitted = part.advance(body, ended)?;
            }
            match &part.admitted {
                Some(admitted) => replaced = admitted.body.clone().or(replaced),
                None => return Ok(Step::More),
            }
        }
        let admitted = self.parts.iter_mut().filter_map(|part| part.admitted.take());
        Ok(admitted.reduce(Admitted::and).map_or(Step::More, Step::Allow))
    }
}

impl Part {
    fn advance(&mut self, body: &[u8], ended: bool) -> Result<Option<Admitted>, Denial> {
        let result = self.check.advance(body, ended);
        let Some(document) = &self.document else { return result };
        let admitted = result.map_err(|denial| denial.outside(document))?;
        Ok(admitted.map(|admitted| Admitted {
            fast_forwards: admitted.fast_forwards.map(|pushes| pushes.outside(document)),
            ..admitted
        }))
    }
}

impl Check {
    fn advance(&mut self, so_far: &[u8], ended: bool) -> Result<Option<Admitted>, Denial> {
        let (rule, body, removed, fast_forwards) = match self {
            Self::Nothing(rule) => (rule, None, Vec::new(), None),
            Self::Push(check, rules) => {
                let Some((position, fast_forwards)) = check.advance(so_far, ended)? else {
                    return Ok(None);
                };
                let Some(rule) = rules.get_mut(position) else {
                    return Err(Denial::body("no rule allows it", "ask the operator"));
                };
                (rule, None, Vec::new(), fast_forwards)
            }
            Self::Vendor(..) if !ended => return Ok(None),
            Self::Vendor(check, rule) => {
                let (body, removed) = check.decide(so_far)?;
                (rule, body, removed, None)
            }
        };
        Ok(Some(Admitted { rule: rule.clone(), body, removed, fast_forwards }))
    }
}

impl Admitted {
    /// What remains allowed after a check of an outer policy.
    fn and(mut self, outer: Self) -> Self {
        self.body = outer.body.or(self.body);
        self.removed.extend(outer.removed);
        self.removed.sort_unstable();
        self.removed.dedup();
        self.fast_forwards = match (self.fast_forwards, outer.fast_forwards) {
            (Some(own), Some(outer)) => Some(own.and(outer)),
            (own, outer) => own.or(outer),
        };
        self
    }
}
