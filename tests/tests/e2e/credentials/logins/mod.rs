//! Logins with refresh tokens that are good once: refreshed on the host, by one process, and in no
//! container.

mod agents;
mod failures;
mod machine;
mod search;
mod vendor;
