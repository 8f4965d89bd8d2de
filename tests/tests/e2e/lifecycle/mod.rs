//! Instances side by side, kill -9 at every step, an engine that restarts, a disk that is full:
//! what is left afterwards is nothing, and every session file parses.

mod engine;
mod full;
mod instances;
mod steps;
