//! Imports of what real git did in a view, and of what only an attacker writes.

mod bed;
mod everyday;
