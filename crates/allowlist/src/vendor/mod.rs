//! Requests to the APIs of models, read for the tools that the vendor runs on its side.
//!
//! Such a tool reaches the web from the vendor's network, so a task that may use the API could
//! carry data anywhere with it. `endpoint` finds the requests that can name one, `review` reads
//! their bodies.
//!
//! Invariant: a body that passes has one reading, whether keys are compared as they are or without
//! regard to case and underscores, and in that reading no tool that the policy does not allow. What
//! passes is byte for byte what came.

mod check;
mod domains;
mod endpoint;
mod json;
mod review;
mod tool;

pub(crate) use check::VendorCheck;
pub(crate) use endpoint::query_has_key;
pub(crate) use review::BODY_LIMIT;
