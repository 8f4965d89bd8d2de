//! Concurrent instances, kill -9 at every step, an engine that restarts, a full disk: nothing is
//! left, and every session file parses.

pub(crate) mod engine;
mod full;
mod instances;
mod spares;
mod steps;
