//! Containers in gVisor: guarantees that hold as on the host's kernel, and those that do not.
//! `cargo xtask e2e` runs these tests on a separate engine; docs/gvisor.md describes the
//! consequences.
#![expect(clippy::disallowed_methods, reason = "tests start the programs that they test")]

mod commands;
mod doctor;
mod executor;
mod fixture;
mod hook;
mod limits;
mod network;
mod verify;
