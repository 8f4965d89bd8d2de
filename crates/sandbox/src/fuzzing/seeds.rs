//! Every seed of every fuzz target, also those that were findings once.

use fuzz_input::run_seeds;

use super::{proxy_records, supervisor_frames};

#[test]
fn every_seed_passes() {
    // How often each seed is changed: more often where that costs less.
    run_seeds("proxy_records", 200, proxy_records);
    run_seeds("supervisor_frames", 500, supervisor_frames);
}
