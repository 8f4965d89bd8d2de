//! What a task writes in a work tree, and what that does to the host.

mod copy;
mod links;
mod planted;
mod tree;
