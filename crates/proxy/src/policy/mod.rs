//! Decides what a task may do now: the policy in force, the gate that judges each request by it,
//! the messages of refusals, and the questions to the operator about requests without a rule.
//!
//! Invariant: nothing outside this module creates a [`Permit`].

mod blocked;
mod gate;
mod live;
mod questions;

pub(crate) use blocked::Blocked;
pub(crate) use gate::{Admission, Gate, Pending, Permit, QuarantineWatch, TokenReport, Unruled};
pub(crate) use live::LivePolicy;
pub(crate) use questions::{Questions, Unasked};
