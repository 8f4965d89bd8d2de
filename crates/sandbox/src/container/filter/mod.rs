//! The sandbox's own filter of system calls.

mod file;

pub(crate) use file::write;
