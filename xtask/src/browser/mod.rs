//! The pages of `sandbox report` in a browser, with hostile text in all that a task can write.
#![expect(clippy::indexing_slicing, reason = "what a JSON value does not have is null")]

mod devtools;
mod hostile;

pub(crate) use devtools::{Browser, Tab};
pub(crate) use hostile::{HOSTILE, LARGE, Runs, SINCE};
