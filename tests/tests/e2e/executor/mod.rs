//! The executor: every row of what it promises, on a real engine, each beside a container that is weaker in just that.

mod attacks;
mod bed;
mod behaviour;
mod errors;
mod files;
mod host;
mod output;
mod parallel;
mod timeouts;
