//! Writes of a task to a work tree, and their effects on the host.

mod attack;
mod copy;
mod followed;
mod layouts;
mod links;
mod others;
mod planted;
mod tree;
