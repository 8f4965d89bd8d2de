//! Imports of real git's changes in a view, and of files that only an attacker writes.

pub(crate) mod bed;
mod everyday;
mod everyday_commands;
mod hostile;
mod hostile_refs;
mod hosts;
mod killed;
mod scripts;
mod set_aside;
