//! The checks, one module for each thing that they are about.

mod environment;
mod files;
mod host;
mod kernel;
mod limits;
mod network;
mod proc;
mod rights;
mod sockets;
mod table;
mod works;

pub(crate) use table::make;
