//! The sandbox's own seccomp filter.

mod calls;
mod file;
mod options;
mod profile;
mod requests;

pub(crate) use file::write;
