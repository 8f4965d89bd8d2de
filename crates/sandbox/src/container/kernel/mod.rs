//! What the kernel enforces for a container that stands but does not run yet, read from `/proc`.
//!
//! The engine's inspect does not tell whether sysctls were set, what is masked or how large a file system in memory is, and nothing
//! that it tells is as good as the kernel's own word. The filter of system calls is not here: with no-new-privileges, runtimes load
//! it in the last moment before the program.

mod disk;
mod facts;
mod mountinfo;

pub(super) use disk::disk_bound;
pub(super) use facts::{KernelFacts, is_of_container, read, roots};
pub(super) use mountinfo::KernelMount;
#[cfg(test)]
pub(super) use mountinfo::parse;
