//! Which of a project's files the user reviewed: settings that a task could have written are obeyed
//! only after a person trusted these very bytes.
//!
//! What a file gives a run is [`Rights`], a line each; [`Store`] keeps those that are trusted now,
//! and [`Changes`] says how others differ.

mod amount;
mod changes;
mod configuration;
mod credentials;
mod image;
mod input;
mod policy;
mod rights;
mod store;

pub(crate) use changes::Changes;
pub(crate) use configuration::configuration_rights;
pub(crate) use image::image_rights;
pub(crate) use input::{Digest, Input, Place, Role};
pub(crate) use policy::{build_policy_rights, policy_rights};
pub(crate) use rights::Rights;
pub(crate) use store::{Record, Store};

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
