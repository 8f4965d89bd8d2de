//! The process that owns a run which others attach to.
//!
//! `sandbox run -t` or `-d` starts itself again: that process, in a session of its own, does all
//! that `sandbox run` does, and holds the proxy's stdin. What it writes goes through a [`Screen`],
//! to those who are attached.

mod frame;
mod process;
mod screen;

pub(crate) use frame::Frame;
pub(crate) use process::{Owner, Starting, read_kept, start};
pub(crate) use screen::{RequestedSize, Screen, Viewer};
