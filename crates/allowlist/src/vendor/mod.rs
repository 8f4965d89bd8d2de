//! Requests to the APIs of models, searched for tools that the vendor runs.
//!
//! Such a tool reaches the web from the vendor's network, so a task that may use the API could
//! carry data anywhere with it. `endpoint` finds the requests that can name one, `review` reads
//! their bodies.
//!
//! Invariant: a body that passes has one meaning, whether or not keys are compared with case and
//! underscores, and contains no tool that the policy does not allow. The parts that pass are
//! unchanged byte for byte.

mod check;
mod domains;
mod endpoint;
mod json;
mod review;
mod tool;

pub(crate) use check::VendorCheck;
pub(crate) use endpoint::query_has_key;
pub(crate) use review::BODY_LIMIT;
