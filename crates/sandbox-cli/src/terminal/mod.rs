//! The user's terminal while a container program or our own view uses it.

mod detach_keys;
mod filter;
mod full_screen;
mod modes;
mod raw;

pub(crate) use detach_keys::DetachKeys;
pub(crate) use filter::Filter;
pub(crate) use full_screen::FullScreen;
pub(crate) use modes::Modes;
pub(crate) use raw::{RawMode, Shown, size};
