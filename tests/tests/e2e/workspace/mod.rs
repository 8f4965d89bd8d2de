//! What a task writes in a work tree, and what that does to the host.

mod attack;
mod copy;
mod followed;
mod layouts;
mod links;
mod others;
mod planted;
mod tree;
