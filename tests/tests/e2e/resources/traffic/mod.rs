//! Traffic that is meant to wear the proxy out: its memory stays bounded, it goes on to serve, and
//! other tasks see nothing of it.

mod attack;
mod bodies;
mod connections;
