//! Faults of the machinery around a task: what it did is on record, what it came to is true, and
//! nothing stays behind.

mod bridges;
mod flood;
mod leftovers;
mod monitor;
mod proxy_faults;
mod record;
mod unfinished_agent;
