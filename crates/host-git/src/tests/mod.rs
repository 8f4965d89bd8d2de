//! Imports of what real git did in a view, and of what only an attacker writes.

pub(crate) mod bed;
mod everyday;
mod hostile;
mod hosts;
mod killed;
mod scripts;
