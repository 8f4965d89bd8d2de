//! Bundles on a Slurm cluster: what was submitted, Slurm's programs, and a node's own folders.

mod node;
mod programs;
mod secrets;
mod submission;

pub(crate) use node::{Images, JobFolder, Node};
pub(crate) use programs::{Job, Slurm};
pub(crate) use secrets::{Taken, await_secrets, forget_secrets, pass_secrets, sealed};
pub(crate) use submission::{Submission, SubmittedTask};
