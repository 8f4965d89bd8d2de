//! The files of a project that the user reviewed: settings that a task could have written are
//! obeyed only after the user trusted exactly these bytes.
//!
//! [`Rights`] lists the rights that a file gives to a run, [`Store`] keeps the trusted ones, and
//! [`Changes`] compares others with them.

mod amount;
mod changes;
mod configuration;
mod credentials;
mod image;
mod input;
mod policy;
mod rights;
mod store;

pub(crate) use amount::{size, time};
pub(crate) use changes::Changes;
pub(crate) use configuration::configuration_rights;
pub(crate) use image::image_rights;
pub(crate) use input::{Digest, Input, Place, Role};
pub(crate) use policy::{build_policy_rights, policy_rights};
pub(crate) use rights::Rights;
pub(crate) use store::{Record, Store};

/// The source of trust in the project's files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Trust {
    /// The store; on a terminal, also the answer to a question.
    #[default]
    Recorded,
    /// `--trust`: the user of this command trusts the files.
    Now,
    /// `--trust=DIGEST`: files with this digest were reviewed.
    Digest(Digest),
}
