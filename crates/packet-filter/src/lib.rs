//! Which packets leave a network namespace: a filter of the kernel's (`nf_tables`), set up without a program or a library.
//!
//! [`apply`] makes [`Rule`]s those of the calling thread's network namespace. Only who has `CAP_NET_ADMIN` there can remove them.

mod kernel;
mod messages;
mod reports;
mod rule;

pub use kernel::apply;
pub use reports::Reports;
pub use rule::{Condition, ICMP, LOOPBACK, Rule, TCP, UDP, Verdict};
