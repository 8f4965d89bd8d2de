//! Shell-style patterns with the semantics of Python's `fnmatch`.
//!
//! [`Pattern`] is independent of hosts and paths: [`crate::HostPattern`] and [`crate::PathPattern`]
//! define the valid ones. `class` reads `[…]`, `compile` turns text into tokens, `matcher` runs
//! them, and `reach` decides whether any text of a given language can match at all.

mod class;
mod compile;
mod matcher;
mod reach;

pub(crate) use class::Token;
pub(crate) use compile::Pattern;
pub(crate) use reach::Language;
