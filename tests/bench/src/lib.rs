//! Samples and their statistics, shared by the two benchmark programs.
//!
//! `cargo xtask bench` runs both. `bench-tasks` compares a sandboxed `true` with a bare container;
//! `bench-proxy` compares requests through the proxy with direct requests to the origin. Both print
//! one JSON document.
//!
//! ```
//! use benchmarks::Sample;
//!
//! let sample: Sample = [3.0, 1.0, 2.0].into_iter().collect();
//! assert_eq!(sample.median(), 2.0);
//! ```

mod processor;
mod sample;

pub use processor::{machine_milliseconds, process_seconds};
pub use sample::{Sample, Spread};
