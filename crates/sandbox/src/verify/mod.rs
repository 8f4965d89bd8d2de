//! Whether the sandbox keeps its guarantees, observed from inside.
//!
//! A static program runs in containers that are launched as any other, and tries what must fail and
//! what must work. `guarantee` decides which checks apply, `order` is what the program is given,
//! `run` launches it, `report` is the result.

mod guarantee;
mod order;
mod report;
mod run;
mod spec;

pub use report::VerifyReport;
pub(crate) use run::verify;
pub use spec::{ExpectedProgram, VerifySpec};
