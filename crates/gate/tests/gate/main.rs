//! The server and its mirrors, with git itself as client and upstream.

mod bed;
mod mirror;
mod server;
