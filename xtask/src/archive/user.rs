//! A user who has installed the sandbox, on a system with podman that does not show the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::pack::Made;
use super::programs;
use crate::demo::StandIn;
use crate::engine::{PrivateEngine, ordinary_user};
use crate::netns::Pair;
use crate::process::{self, command};
use crate::workspace;

/// The system of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// The Debian that the engine runs in, with podman, its dependencies, and the package.
    Debian,
    /// This machine, with a developer's tools, and the files that the archive installs.
    Machine,
}

/// A user whose home is in a folder that the engine sees, with the archive in it.
pub(super) struct User {
    socket: String,
    network: PathBuf,
    /// The engine's process.
    process: u32,
    is_root: bool,
    system: System,
    home: PathBuf,
}

/// The time limit of a script, in seconds: a longer run waits for an event that will not happen.
const LIMIT: &str = "600";
/// Replaces the checkout by an empty folder, and overlays the folders that a package is installed
/// into with folders of this user, for the command that it starts.
const SYSTEM: &str = r#"set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$CHECKOUT"
for folder in $INSTALLED_INTO; do
    own=$HOME/system$folder
    mkdir -p "$own/upper" "$own/work"
    mount -t overlay -o "lowerdir=$folder,upperdir=$own/upper,workdir=$own/work" overlay "$folder"
done
unset CHECKOUT INSTALLED_INTO
cd "$HOME"
exec "$@""#;

impl User {
    /// Installs the files in `made` for a user with an empty home, in a folder with a space in its
    /// name.
    pub(super) fn new(engine: &PrivateEngine, system: System, made: &Made) -> Result<Self> {
        let socket = engine.socket();
        // Only the owner of the engine can enter the folder of its socket.
        let folder = socket.path().parent().context("the socket has no folder")?;
        let pair: Pair = engine.network().context("the engine has no network of its own")?;
        // Engines of different versions share the folder.
        let version = socket.path().file_stem().unwrap_or_default().to_string_lossy();
        let home = folder.join(match system {
            System::Debian => format!("a home beside {version}"),
            System::Machine => "a reader's home".to_owned(),
        });
        let user = Self {
            socket: socket.url(),
            network: Pair::path(&pair.host),
            process: engine.pid().context("the engine has ended")?,
            is_root: !engine.is_rootless(),
            system,
            home,
        };
        user.unpack(made)?;
        match system {
            System::Debian => user.run_as_root(
                r#"dpkg --log /dev/null --path-include '/usr/share/*' --install "$HOME"/sandbox_*.deb; (cd /usr/libexec/sandbox && sha256sum --check SHA256SUMS)"#,
            )?,
            System::Machine => user.run(r#""$ARCHIVE/install.sh" --prefix "$HOME/.local""#)?,
        }
        Ok(user)
    }

    /// The folder of the documents, on this machine.
    pub(super) fn documents(&self) -> PathBuf {
        self.archive().join("share/doc/sandbox")
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// The folder with the unpacked archive.
    fn archive(&self) -> PathBuf {
        self.home.join("un packed")
    }

    fn unpack(&self, made: &Made) -> Result<()> {
        if self.home.exists() {
            fs::remove_dir_all(&self.home)
                .with_context(|| format!("failed to remove {}", self.home.display()))?;
        }
        let archive = self.archive();
        fs::create_dir_all(&archive).with_context(|| format!("failed to create {}", archive.display()))?;
        process::run_quietly(
            command("tar", ["--extract", "--strip-components=1", "--file"])
                .arg(&made.archive)
                .arg("--directory")
                .arg(&archive),
        )?;
        for (file, name) in [
            (&made.archive, "archive.tar.gz".as_ref()),
            (&made.deb, made.deb.file_name().unwrap_or_default()),
        ] {
            fs::copy(file, self.home.join(name))?;
        }
        programs::write(&self.home.join("bin"))?;
        self.own()
    }

    /// Makes the user the owner of everything in the home.
    pub(super) fn own(&self) -> Result<()> {
        let owner = if self.is_root { 0 } else { ordinary_user::ID };
        process::run_quietly(command("chown", ["--recursive", &format!("{owner}:{owner}")]).arg(&self.home))
    }

    /// Writes the part of a `sandbox.yaml` that makes `internet` the internet of the user's
    /// projects.
    pub(super) fn write_upstream(&self, internet: &StandIn) -> Result<()> {
        let roots = self.home.join("roots.pem");
        // JSON is valid YAML, independently of the characters in the path.
        let upstream = serde_json::json!({
            "dns": internet.address().to_string(),
            "extra_roots": roots,
            "allow_addresses": [internet.subnet()],
        });
        fs::write(&roots, internet.authority())?;
        fs::write(self.home.join("upstream.yaml"), format!("upstream: {upstream}\n"))?;
        self.own()
    }

    /// Runs a bash script in the home; an error contains its output.
    pub(super) fn run(&self, script: &str) -> Result<()> {
        Self::bash(self.enter(self.is_root), script)
    }

    pub(super) fn run_as_root(&self, script: &str) -> Result<()> {
        Self::bash(self.enter(true), script)
    }

    fn bash(mut enter: Command, script: &str) -> Result<()> {
        let script = format!("exec 2>&1\nset -e\n{script}");
        enter.args(["timeout", "--kill-after=10", LIMIT, "bash", "-c", &script, "bash"]);
        let output = enter.stdin(Stdio::null()).output().context("failed to start a shell")?;
        if !output.status.success() {
            bail!("{}; its output:\n{}", output.status, String::from_utf8_lossy(&output.stdout).trim_end());
        }
        Ok(())
    }

    /// Removes the user's objects on the engine, the installed files, and the home. After a failed
    /// test all of it stays for inspection.
    pub(super) fn leave(self) -> Result<()> {
        self.run(r#"sandbox clean --all --yes; test ! -e "$HOME/.local/state/sandbox""#)?;
        match self.system {
            System::Debian => self.run_as_root(include_str!("purge.sh"))?,
            System::Machine => self.run(
                r#""$HOME/.local/libexec/sandbox/install.sh" --uninstall; test -z "$(find "$HOME/.local" -mindepth 1 -not -path "$HOME/.local/state")""#,
            )?,
        }
        fs::remove_dir_all(&self.home).with_context(|| format!("failed to remove {}", self.home.display()))
    }

    /// The beginning of a command that runs as the user, or as root, on the user's system.
    fn enter(&self, is_root: bool) -> Command {
        let mut enter = command("nsenter", [format!("--net={}", self.network.display())]);
        let installed = match self.system {
            System::Debian => {
                enter.arg(format!("--mount=/proc/{}/ns/mnt", self.process));
                "/usr /var/lib/dpkg"
            }
            System::Machine => "",
        };
        enter.args(["--", "unshare", "--mount", "sh", "-c", SYSTEM, "sh"]);
        enter.env_clear().env("CHECKOUT", workspace::root()).env("INSTALLED_INTO", installed);
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let (home, bin) = (self.home.join(".local/bin"), self.home.join("bin"));
        enter.env("PATH", format!("{}:{}:{path}", home.display(), bin.display()));
        enter.env("HOME", &self.home).env("ARCHIVE", self.archive()).env("CONTAINER_HOST", &self.socket);
        if !is_root {
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
