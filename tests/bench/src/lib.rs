//! What the two benchmark programs share: samples and what is reported of them.
//!
//! `cargo xtask bench` runs both. `bench-tasks` puts a sandboxed `true` beside a bare container;
//! `bench-proxy` puts requests through the proxy beside requests that go straight to the origin.
//! Both print one JSON document.
//!
//! ```
//! use benchmarks::Sample;
//!
//! let sample: Sample = [3.0, 1.0, 2.0].into_iter().collect();
//! assert_eq!(sample.median(), 2.0);
//! ```

mod sample;

pub use sample::{Sample, Spread};
