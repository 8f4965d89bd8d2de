//! Shell-style patterns with the semantics of Python's `fnmatch`.
//!
//! [`Pattern`] is independent of hosts and paths: [`crate::HostPattern`] and [`crate::PathPattern`]
//! define the valid ones. `class` reads `[…]`, `compile` turns text into tokens, `matcher` runs
//! them, `reach` decides whether any text of a given language can match at all, and `product` finds a
//! text for each set of patterns that can match together.

mod class;
mod compile;
mod matcher;
mod product;
mod reach;

pub(crate) use class::Token;
pub(crate) use compile::Pattern;
pub(crate) use product::Effort;
pub(crate) use product::Product;
pub(crate) use product::Scope;
pub(crate) use product::Sequence;
pub(crate) use reach::Language;
