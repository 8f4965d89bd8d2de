//! Failures of the machinery around a task: its actions are recorded, its result is true, and
//! nothing is left.

mod bridges;
mod flood;
mod leftovers;
mod monitor;
mod proxy_faults;
mod record;
mod unfinished_agent;
