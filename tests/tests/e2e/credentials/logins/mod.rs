//! Logins with single-use refresh tokens: refreshed on the host by one process, never in a
//! container.

mod agents;
mod failures;
mod machine;
mod search;
mod vendor;
