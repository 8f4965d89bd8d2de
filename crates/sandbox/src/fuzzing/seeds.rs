//! Every seed of every fuzz target, also those that were findings once.

use fuzz_input::run_seeds;

use super::{engine_answer, git_files, proxy_records, supervisor_frames, workspace_copy};

/// Its name, how often each seed is changed, which is more often where that costs less, and what it runs.
type Target = (&'static str, u32, fn(&[u8]));

#[test]
fn every_seed_passes() {
    let targets: [Target; 5] = [
        ("engine_answer", 30, engine_answer),
        ("git_files", 30, git_files),
        ("proxy_records", 200, proxy_records),
        ("supervisor_frames", 500, supervisor_frames),
        ("workspace_copy", 20, workspace_copy),
    ];
    for (name, changed, target) in targets {
        run_seeds(name, changed, target);
    }
}
