//! What the kernel enforces for a container that is set up but does not run yet, read from `/proc`.
//!
//! The engine's inspect does not report whether sysctls were set, what is masked or how large a
//! file system in memory is, and nothing that it reports is as good as the kernel's own word. The
//! filter of system calls is read from the runtime's configuration.

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
