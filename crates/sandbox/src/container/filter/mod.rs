//! The sandbox's own filter of system calls.

mod calls;
mod file;
mod options;
mod profile;
mod requests;

pub(crate) use file::write;
