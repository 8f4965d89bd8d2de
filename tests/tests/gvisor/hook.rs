//! The engine's hook, which a test removes while no other test runs containers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use e2e_tests::setting::Setting;

/// While the lock is held, the engine has its hook.
pub(super) fn keep() -> File {
    let lock = lock();
    lock.lock_shared().expect("a lock of the run");
    lock
}

/// While this is held, the engine has no hook.
pub(super) struct Removed {
    _alone: File,
}

impl Removed {
    pub(super) fn new() -> Self {
        let alone = lock();
        alone.lock().expect("a lock of the run");
        fs::rename(hook(), aside()).expect("the engine's hook");
        Self { _alone: alone }
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        fs::rename(aside(), hook()).expect("the engine's hook");
    }
}

/// A file lock, since each test is its own process.
fn lock() -> File {
    File::create(Setting::of_this_run().folder.join("hook")).expect("a file of the run")
}

/// The hook installed by `cargo xtask engine`.
fn hook() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xtask/gvisor/hooks/sandbox.json")
}

fn aside() -> PathBuf {
    hook().with_extension("aside")
}
