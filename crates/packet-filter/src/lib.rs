#![doc = include_str!("../README.md")]

mod kernel;
mod messages;
mod reports;
mod rule;

pub use kernel::apply;
pub use reports::Reports;
pub use rule::{Condition, ICMP, LOOPBACK, Rule, TCP, UDP, Verdict};
