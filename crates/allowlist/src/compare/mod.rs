//! The difference of two policies, decided on their rules.
//!
//! `search` lists the hosts that rules of one policy alone cover, one for each combination of host
//! patterns; `site` the requests to one of them, one for each combination of path patterns. Requests
//! of the same combination get the same answer, so [`Allowlist::decide`] is asked about one of each:
//! nothing here decides itself. Where that does not hold, because a decision decodes a text
//! repeatedly, all its possible answers are compared, and where they differ, or there are too many
//! combinations, the rule is reported as undecided.

mod bodies;
mod comparison;
mod findings;
mod languages;
mod search;
mod side;
mod site;

pub use comparison::Change;
pub use comparison::Comparison;
pub use comparison::Difference;
pub use comparison::Doubtful;
pub use comparison::Example;
pub use comparison::ExampleBody;
pub use comparison::Undecided;

#[cfg(test)]
mod tests;
