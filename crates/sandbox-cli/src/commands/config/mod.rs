//! `config …`: the configuration, looked at without running anything.
//!
//! `inspect` finds what is wrong, `report` is what was found and how it is printed.

mod inspect;
mod report;

pub(crate) use inspect::config;
