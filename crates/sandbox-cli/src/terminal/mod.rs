//! The user's terminal while a program in a container has it.

mod detach_keys;
mod modes;
mod raw;

pub(crate) use detach_keys::DetachKeys;
pub(crate) use modes::Modes;
pub(crate) use raw::{RawMode, size};
