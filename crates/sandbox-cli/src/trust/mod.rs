//! Which of a project's files the user reviewed: settings that a task could have written are obeyed only after a person trusted these
//! very bytes.

mod input;
mod request;
mod store;

pub(crate) use input::{Digest, Input, Role};
pub(crate) use request::{build_policy_request, build_request, configuration_requests, policy_request};
pub(crate) use store::Store;

/// Whose word a command takes for the project's files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Trust {
    /// The store's; on a terminal, the answer to a question.
    #[default]
    Recorded,
    /// `--trust`: that of whoever runs this command.
    Now,
    /// `--trust=DIGEST`: whatever has this digest was reviewed.
    Digest(Digest),
}
