//! Traffic that tries to exhaust the proxy: its memory stays bounded, it continues to serve, and
//! other tasks are not affected.

mod attack;
mod bodies;
mod connections;
