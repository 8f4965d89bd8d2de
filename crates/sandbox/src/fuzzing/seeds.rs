//! Runs every seed of every fuzz target, including former findings.

use fuzz_input::run_seeds;

use super::{proxy_records, supervisor_frames};

#[test]
fn every_seed_passes() {
    // The number of mutations of each seed: higher where they are cheaper.
    run_seeds("proxy_records", 200, proxy_records);
    run_seeds("supervisor_frames", 500, supervisor_frames);
}
