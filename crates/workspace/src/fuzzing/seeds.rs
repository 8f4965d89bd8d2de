//! Every seed of every fuzz target, including former findings.

use fuzz_input::run_seeds;

use super::{git_files, workspace_copy};

#[test]
fn every_seed_passes() {
    // How often each seed is changed: more often if that costs less.
    run_seeds("git_files", 30, git_files);
    run_seeds("workspace_copy", 20, workspace_copy);
}
