//! What a task may do now: the policy in force, the gate that asks it about each request, the words
//! of a refusal, and the questions that the operator is asked where a rule is missing.
//!
//! Invariant: nothing outside makes a [`Permit`].

mod blocked;
mod gate;
mod live;
mod questions;

pub(crate) use blocked::Blocked;
pub(crate) use gate::{Admission, Gate, Pending, Permit, QuarantineWatch, TokenReport, Unruled};
pub(crate) use live::LivePolicy;
pub(crate) use questions::{Questions, Unasked};
