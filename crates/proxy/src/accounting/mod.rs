//! What a task uses up: the budget of its policy, the tokens that its answers report, and how often
//! it ran into a limit.

mod budget;
mod limits;
mod usage;

pub(crate) use budget::Spending;
pub(crate) use limits::LimitCounter;
pub(crate) use usage::UsageReader;
