//! The engine's hook, which a test takes away while no other runs containers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use e2e_tests::setting::Setting;

/// While this is held, the engine has its hook.
pub(super) fn stays() -> File {
    let lock = lock();
    lock.lock_shared().expect("a lock of the run");
    lock
}

/// While this is held, it has none.
pub(super) struct Gone {
    _alone: File,
}

impl Gone {
    pub(super) fn now() -> Self {
        let alone = lock();
        alone.lock().expect("a lock of the run");
        fs::rename(hook(), aside()).expect("the engine's hook");
        Self { _alone: alone }
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        fs::rename(aside(), hook()).expect("the engine's hook");
    }
}

/// Tests are processes of their own: the lock is on a file.
fn lock() -> File {
    File::create(Setting::of_this_run().folder.join("hook")).expect("a file of the run")
}

/// Where `cargo xtask engine` puts it.
fn hook() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xtask/gvisor/hooks/sandbox.json")
}

fn aside() -> PathBuf {
    hook().with_extension("aside")
}
