//! Someone who has unpacked an archive, on a system beside podman which does not show the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::programs;
use crate::demo::StandIn;
use crate::engine::{PrivateEngine, ordinary_user};
use crate::netns::Pair;
use crate::process::{self, command};
use crate::workspace;

/// What the user works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// The Debian that the engine runs in: podman and what it needs, and nothing else.
    Debian,
    /// This machine, with the tools of a developer.
    Machine,
}

/// A home in a folder that the engine sees, with the archive in it.
pub(super) struct User {
    socket: String,
    network: PathBuf,
    /// Of the engine.
    process: u32,
    is_root: bool,
    system: System,
    home: PathBuf,
    archive: PathBuf,
}

/// Whoever takes longer waits for something that will not come.
const LIMIT: &str = "600";
/// Makes the checkout an empty folder, for whatever is started in the end.
const WITHOUT_CHECKOUT: &str = r#"set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$CHECKOUT"
unset CHECKOUT
cd "$HOME"
exec "$@""#;

impl User {
    /// Unpacks the archive into an empty home, in a folder with a blank in its name.
    pub(super) fn new(engine: &PrivateEngine, system: System, archive: &Path) -> Result<Self> {
        let socket = engine.socket();
        // Only the owner of the engine gets into the folder of its socket.
        let folder = socket.path().parent().context("the socket is in no folder")?;
        let pair: Pair = engine.network().context("the engine has no network of its own")?;
        let home = folder.join(match system {
            System::Debian => "a home",
            System::Machine => "a reader's home",
        });
        let mut user = Self {
            socket: socket.url(),
            network: Pair::path(&pair.host),
            process: engine.pid().context("the engine has ended")?,
            is_root: !engine.is_rootless(),
            system,
            archive: PathBuf::new(),
            home,
        };
        user.unpack(archive)?;
        Ok(user)
    }

    /// The folder that the archive holds.
    pub(super) fn archive(&self) -> &Path {
        &self.archive
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    fn unpack(&mut self, archive: &Path) -> Result<()> {
        if self.home.exists() {
            fs::remove_dir_all(&self.home)
                .with_context(|| format!("cannot remove {}", self.home.display()))?;
        }
        let folder = self.home.join("un packed");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        process::run_quietly(
            command("tar", ["--extract", "--file"]).arg(archive).arg("--directory").arg(&folder),
        )?;
        let mut unpacked = fs::read_dir(&folder)?;
        fs::copy(archive, self.home.join("archive.tar.gz"))?;
        self.archive = unpacked.next().context("the archive is empty")??.path();
        if unpacked.next().is_some() {
            bail!("the archive holds more than one folder");
        }
        programs::write(&self.home.join("bin"))?;
        self.own()
    }

    /// Gives the user all that is in the home.
    pub(super) fn own(&self) -> Result<()> {
        let owner = if self.is_root { 0 } else { ordinary_user::ID };
        process::run_quietly(command("chown", ["--recursive", &format!("{owner}:{owner}")]).arg(&self.home))
    }

    /// Writes what makes `internet` the one that a project of the user's reaches, for `sandbox.yaml`.
    pub(super) fn write_upstream(&self, internet: &StandIn) -> Result<()> {
        let roots = self.home.join("roots.pem");
        // A JSON text is a YAML text too, whatever the path holds.
        let upstream = serde_json::json!({
            "dns": internet.address().to_string(),
            "extra_roots": roots,
            "allow_addresses": [internet.subnet()],
        });
        fs::write(&roots, internet.authority())?;
        fs::write(self.home.join("upstream.yaml"), format!("upstream: {upstream}\n"))?;
        self.own()
    }

    /// Runs a script of bash in the home. It fails with what the script said.
    pub(super) fn run(&self, script: &str) -> Result<()> {
        let mut bash = self.enter();
        bash.args([
            "timeout",
            "--kill-after=10",
            LIMIT,
            "bash",
            "-c",
            &format!("exec 2>&1\n{script}"),
            "bash",
        ]);
        let output = bash.stdin(Stdio::null()).output().context("failed to start a shell")?;
        if !output.status.success() {
            bail!("{}; it said:\n{}", output.status, String::from_utf8_lossy(&output.stdout).trim_end());
        }
        Ok(())
    }

    /// Removes what the user left on the engine, and the home. Whoever failed leaves both to be looked at.
    pub(super) fn leave(self) -> Result<()> {
        self.run("sandbox clean --all")?;
        fs::remove_dir_all(&self.home).with_context(|| format!("cannot remove {}", self.home.display()))
    }

    /// The start of a command of the user's.
    fn enter(&self) -> Command {
        let mut enter = command("nsenter", [format!("--net={}", self.network.display())]);
        if self.system == System::Debian {
            enter.arg(format!("--mount=/proc/{}/ns/mnt", self.process));
        }
        enter.args(["--", "unshare", "--mount", "sh", "-c", WITHOUT_CHECKOUT, "sh"]);
        enter.env_clear().env("CHECKOUT", workspace::root());
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let bin = self.home.join("bin");
        enter.env("PATH", format!("{}:{}:{path}", self.archive.display(), bin.display()));
        enter.env("HOME", &self.home).env("ARCHIVE", &self.archive).env("CONTAINER_HOST", &self.socket);
        if !self.is_root {
            let id = ordinary_user::ID;
            enter.env("XDG_RUNTIME_DIR", format!("/run/user/{id}"));
            enter.args([
                "setpriv",
                "--clear-groups",
                &format!("--reuid={id}"),
                &format!("--regid={id}"),
                "--",
            ]);
        }
        enter
    }
}
