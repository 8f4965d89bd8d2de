//! Uses the archive and the packages as users do.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use super::documents;
use super::pack::{Build, Made, make};
use super::record;
use super::user::{System, User};
use crate::claude_code;
use crate::demo::StandIn;
use crate::engine::{Podman, PrivateEngine, ensure_image};
use crate::markdown;
use crate::process::{self, command};
use crate::report::step;
use crate::task_base_image::{BASE, CLIENTS};
use crate::workspace;

/// The base image of the default Dockerfile.
const DEFAULT_BASE: &str = "localhost/debian:trixie-slim";

/// Creates the archive and the packages, installs them on separate systems, as root and as an
/// ordinary user, and runs the commands in the documents.
pub(crate) fn tested(build: Build) -> Result<Made> {
    let made = make(build)?;
    let _lock = lock()?;
    let stand_in = StandIn::build()?;
    let claude = claude_code::program(None)?;
    // The older system is only tested with releases, since it is not needed for every change.
    let engines: &[_] = match build {
        Build::Release => &[Podman::Five, Podman::FiveRootless, Podman::Four, Podman::FourRootless],
        Build::Dev => &[Podman::Five, Podman::FiveRootless],
    };
    // Shared parts are created first; then the tests run in parallel on separate engines, mostly
    // waiting.
    let places = engines.iter().map(|podman| Place::prepare(*podman, &stand_in));
    let places = places.collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let uses: Vec<_> = places
            .iter()
            .map(|place| {
                let name = format!("the package, on the system of {}", place.podman.name());
                let (made, claude) = (&made, &claude);
                scope.spawn(move || step(&name, || place.first_use(made, claude)).context(name))
            })
            .collect();
        let ended = uses
            .into_iter()
            .map(|used| used.join().unwrap_or_else(|_| bail!("a part of the test panicked")).err());
        let errors: Vec<String> = ended.flatten().map(|error| format!("{error:#}")).collect();
        if errors.is_empty() { Ok(()) } else { Err(anyhow!("{}", errors.join("\n"))) }
    })?;
    // Not in parallel with the others: removing everything fails while another user of the engine
    // is active.
    if let [first, ..] = places.as_slice() {
        ensure_image(first.engine.socket(), &CLIENTS)?;
        step("the commands in the archive's documents", || first.documents(&made))?;
        step("the image of the command", || first.image(&made))?;
    }
    Ok(made)
}

/// Creates the packages, and the documents' pictures of their use on an empty system.
pub(crate) fn recorded(build: Build) -> Result<Made> {
    let made = make(build)?;
    let _lock = lock()?;
    let place = Place::prepare(Podman::Five, &StandIn::build()?)?;
    let user = place.user(&made, &claude_code::program(None)?)?;
    user.run_as_root(include_str!("purge.sh"))?;
    ensure_image(place.engine.socket(), &CLIENTS)?;
    let script = format!("IMAGE={}\n{}", CLIENTS.reference(), include_str!("record.sh"));
    step("recording the first use", || user.run(&script))?;
    for name in ["first-answer", "learnt-policy"] {
        record::draw(user.home(), name)?;
    }
    user.leave()?;
    Ok(made)
}

/// An engine, and the internet that its containers reach.
struct Place {
    podman: Podman,
    engine: PrivateEngine,
    internet: StandIn,
}

impl Place {
    fn prepare(podman: Podman, stand_in: &Path) -> Result<Self> {
        let engine = PrivateEngine::new(Some(podman));
        step(&format!("starting {}", podman.name()), || engine.ensure())?;
        ensure_image(engine.socket(), &BASE)?;
        step(&format!("making {DEFAULT_BASE}"), || make_default_base(&engine))?;
        let internet = StandIn::start(engine.socket(), "archive", stand_in)?;
        Ok(Self { podman, engine, internet })
    }

    /// A user who has installed the package and Claude Code.
    fn user(&self, made: &Made, claude: &Path) -> Result<User> {
        let user = User::new(&self.engine, System::Debian, made)?;
        let folder = user.home().join("claude-code");
        fs::create_dir_all(&folder)?;
        fs::copy(claude, folder.join("claude")).context("failed to copy Claude Code")?;
        user.write_upstream(&self.internet)?;
        Ok(user)
    }

    fn first_use(&self, made: &Made, claude: &Path) -> Result<()> {
        let user = self.user(made, claude)?;
        user.run(&format!("IMAGE={}\n{}", BASE.reference(), include_str!("first_use.sh")))?;
        user.leave()
    }

    fn documents(&self, made: &Made) -> Result<()> {
        let reader = User::new(&self.engine, System::Machine, made)?;
        markdown::check_links(&reader.documents())?;
        documents::test(&self.engine, &reader, &self.internet)?;
        reader.leave()
    }

    /// The image with the command and an engine of its own.
    fn image(&self, made: &Made) -> Result<()> {
        let shared = self.engine.socket().path().parent().context("the socket has no folder")?;
        let mut script = command("sh", ["-c", include_str!("image.sh")]);
        script
            .env("PODMAN", self.engine.client())
            .env("ROOT", self.podman.root()?)
            .env("FOLDER", shared.join("image"))
            .env("DEB", &made.deb)
            .env("DOCKERFILE", workspace::root().join("ci/Dockerfile"))
            .env("IMAGE", BASE.reference());
        process::run_quietly(&mut script)
    }
}

/// Packages are not available here, so `apt-get` is replaced by a program that does nothing.
fn make_default_base(engine: &PrivateEngine) -> Result<()> {
    let folder = workspace::state().join("default-base");
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let text = format!("FROM {}\nCOPY --chmod=755 apt-get /usr/local/sbin/\n", BASE.reference());
    for (name, text) in [("Dockerfile", text.as_str()), ("apt-get", "#!/bin/sh\n")] {
        fs::write(folder.join(name), text).with_context(|| format!("failed to write {name}"))?;
    }
    process::run_quietly(command(engine.client(), ["build", "--quiet", "--tag", DEFAULT_BASE]).arg(&folder))
}

/// Concurrent tests would unpack into the same home.
fn lock() -> Result<File> {
    let path: PathBuf = workspace::state().join("archive.lock");
    fs::create_dir_all(workspace::state())?;
    let file = File::create(&path).with_context(|| format!("failed to write {}", path.display()))?;
    file.lock().with_context(|| format!("failed to lock {}", path.display()))?;
    Ok(file)
}
