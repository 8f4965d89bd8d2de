//! `config …`: checks the configuration without running anything.
//!
//! `inspect` finds the problems, `report` holds and prints them.

mod inspect;
mod report;

pub(crate) use inspect::config;
