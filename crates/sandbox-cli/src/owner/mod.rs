//! The process that owns a run which others attach to.
//!
//! `sandbox run -t` or `-d` starts itself again: that process, in its own session, does everything
//! that `sandbox run` does, and holds the proxy's stdin. Its output goes through a [`Screen`] to
//! the attached clients.

mod frame;
mod process;
mod screen;
mod stored;

pub(crate) use frame::Frame;
pub(crate) use process::{Owner, Starting, start};
pub(crate) use screen::{RequestedSize, Screen, Viewer};
pub(crate) use stored::Reader as StoredOutput;
