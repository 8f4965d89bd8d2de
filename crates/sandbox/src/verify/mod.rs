//! Verifies from the inside that the sandbox keeps its guarantees.
//!
//! A static program runs in containers that are launched like any other, and tries operations that
//! must fail and operations that must work. `guarantee` selects the checks that apply, `order` is
//! the program's input, `run` launches it, `report` is the result.

mod guarantee;
mod order;
mod report;
mod run;
mod spec;

pub use report::VerifyReport;
pub(crate) use run::verify;
pub use spec::{ExpectedProgram, VerifySpec};
