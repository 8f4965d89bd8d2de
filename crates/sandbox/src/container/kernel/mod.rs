//! Facts that the kernel enforces for a container that is set up but does not run yet, read from
//! `/proc`.
//!
//! The engine's inspection does not report whether sysctls were set, which paths are masked or the
//! size of an in-memory file system, and the kernel's own report is more reliable than the
//! engine's. The seccomp filter is read from the runtime's configuration.

mod disk;
mod facts;
mod filter;
mod mountinfo;
mod node;
mod process;

pub(super) use disk::disk_bound;
pub(super) use facts::{KernelFacts, nodes, read, roots};
#[cfg(test)]
pub(super) use filter::Filter;
pub(super) use filter::{Requested, profile, requested};
pub(super) use mountinfo::KernelMount;
#[cfg(test)]
pub(super) use mountinfo::parse;
pub(super) use node::Node;
pub(super) use process::Process;
