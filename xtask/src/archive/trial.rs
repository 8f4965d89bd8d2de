//! The archive, used as its readers use it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::documents;
use super::pack::{Build, make};
use super::user::{System, User};
use crate::demo::StandIn;
use crate::engine::{Podman, PrivateEngine, ensure_image};
use crate::markdown;
use crate::report::step;
use crate::task_base_image::{BASE, CLIENTS};
use crate::workspace;

const AS_ROOT: &str = "the archive, as root";
const AS_USER: &str = "the archive, as an ordinary user";

/// Makes the archive, uses it beside podman, as root and as an ordinary user, and runs what its documents say. Gives its path.
pub(crate) fn tested(build: Build) -> Result<PathBuf> {
    let archive = make(build)?;
    let _lock = lock()?;
    let stand_in = StandIn::build()?;
    // What both share is made before they run at once, on engines of their own, mostly waiting.
    let root = Place::prepare(Podman::Five, &stand_in)?;
    let user = Place::prepare(Podman::FiveRootless, &stand_in)?;
    ensure_image(root.engine.socket(), &CLIENTS)?;
    std::thread::scope(|scope| {
        let user = scope.spawn(|| step(AS_USER, || user.first_use(&archive)).context(AS_USER));
        let root = step(AS_ROOT, || root.first_use(&archive))
            .context(AS_ROOT)
            .and_then(|()| step("what its documents say", || root.documents(&archive)));
        root.and(user.join().unwrap_or_else(|_| bail!("the ordinary user's part panicked")))
    })?;
    Ok(archive)
}

/// An engine, and the internet that its containers reach.
struct Place {
    engine: PrivateEngine,
    internet: StandIn,
}

impl Place {
    fn prepare(podman: Podman, stand_in: &Path) -> Result<Self> {
        let engine = PrivateEngine::new(Some(podman));
        step(&format!("starting {}", podman.name()), || engine.ensure())?;
        ensure_image(engine.socket(), &BASE)?;
        let internet = StandIn::start(engine.socket(), "archive", stand_in)?;
        Ok(Self { engine, internet })
    }

    fn first_use(&self, archive: &Path) -> Result<()> {
        let user = User::new(&self.engine, System::Debian, archive)?;
        markdown::check_links(user.archive())?;
        user.write_upstream(&self.internet)?;
        user.run(&format!("IMAGE={}\n{}", BASE.reference(), include_str!("first_use.sh")))?;
        user.leave()
    }

    fn documents(&self, archive: &Path) -> Result<()> {
        let reader = User::new(&self.engine, System::Machine, archive)?;
        documents::test(&self.engine, &reader, &self.internet)?;
        reader.leave()
    }
}

/// Two tests at once would unpack into the same home.
fn lock() -> Result<File> {
    let path: PathBuf = workspace::state().join("archive.lock");
    fs::create_dir_all(workspace::state())?;
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}
