//! The sandbox's own filter of system calls.

mod calls;
mod file;
mod profile;

pub(crate) use file::write;
