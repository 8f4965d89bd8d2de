//! Containers that gVisor runs: what holds there as it does on the host's kernel, and what does
//! not. `cargo xtask e2e` runs these on an engine of their own; docs/gvisor.md says what follows
//! from them.
#![expect(clippy::disallowed_methods, reason = "tests start the programs that they test")]

mod commands;
mod doctor;
mod executor;
mod fixture;
mod hook;
mod limits;
mod network;
mod verify;
