//! Imports of real git's changes in a view, and of files that only an attacker writes.

mod everyday;
mod everyday_commands;
pub(crate) mod fixture;
mod hostile;
mod hostile_refs;
mod hosts;
mod killed;
mod scripts;
mod set_aside;
