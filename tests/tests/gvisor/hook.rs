//! The engine's hook, which a test takes away while no other runs containers.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static HOOK: RwLock<()> = RwLock::const_new(());

/// While this is held, the engine has its hook.
pub(super) async fn stays() -> RwLockReadGuard<'static, ()> {
    HOOK.read().await
}

/// While this is held, it has none.
pub(super) struct Gone {
    _alone: RwLockWriteGuard<'static, ()>,
}

impl Gone {
    pub(super) async fn now() -> Self {
        let alone = HOOK.write().await;
        fs::rename(hook(), aside()).expect("the engine's hook");
        Self { _alone: alone }
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        fs::rename(aside(), hook()).expect("the engine's hook");
    }
}

/// Where `cargo xtask engine` puts it.
fn hook() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xtask/gvisor/hooks/sandbox.json")
}

fn aside() -> PathBuf {
    hook().with_extension("aside")
}
