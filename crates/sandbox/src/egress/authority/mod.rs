//! The certificate authorities: one root on the host, and one intermediate for each task.
//!
//! The root's key never leaves the state directory and this process. A task's proxy gets an
//! intermediate that can sign leaf certificates only and is valid for a day, so that a compromised
//! proxy cannot sign for other tasks once it is gone.

mod file;
mod pem;
mod root;

pub(super) use pem::certificates;
pub(crate) use root::RootAuthority;
