//! `config …`: the configuration, looked at without running anything.
//!
//! `look` finds what is wrong, `report` is what was found and how it is printed.

mod look;
mod report;

pub(crate) use look::config;
