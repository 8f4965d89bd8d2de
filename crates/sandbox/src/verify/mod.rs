//! Whether the sandbox keeps its promises, seen from inside.
//!
//! A static program, the probe, runs in containers that are launched as any other, and tries what must fail and what must work.
//! `promise` decides which checks apply to what was promised, `order` tells the probe, `run` launches, `report` is what came of it.

mod order;
mod program;
mod promise;
mod report;
mod run;
mod spec;

pub use report::{Check, VerifyReport};
pub(crate) use run::verify;
pub use spec::{ExpectedProgram, VerifySpec};
