//! Accounts for a task's use of resources: the budget of its policy, the tokens that responses
//! report, and how often it reached a limit.

mod budget;
mod limits;
mod usage;

pub(crate) use budget::Spending;
pub(crate) use limits::LimitCounter;
pub(crate) use usage::UsageReader;
