//! Someone who has installed the sandbox, on a system beside podman which does not show the
//! checkout.

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

/// What the user works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// The Debian that the engine runs in: podman and what it needs, and the package.
    Debian,
    /// This machine, with the tools of a developer, and what the archive installs.
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
}

/// Whoever takes longer waits for something that will not come.
const LIMIT: &str = "600";
/// Makes the checkout an empty folder, and what a package is installed into folders of this user's,
/// for whatever is started in the end.
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
    /// Installs what was `made` for a user with an empty home, in a folder with a blank in its
    /// name.
    pub(super) fn new(engine: &PrivateEngine, system: System, made: &Made) -> Result<Self> {
        let socket = engine.socket();
        // Only the owner of the engine gets into the folder of its socket.
        let folder = socket.path().parent().context("the socket is in no folder")?;
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

    /// The folder that the archive holds.
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

    /// Gives the user all that is in the home.
    pub(super) fn own(&self) -> Result<()> {
        let owner = if self.is_root { 0 } else { ordinary_user::ID };
        process::run_quietly(command("chown", ["--recursive", &format!("{owner}:{owner}")]).arg(&self.home))
    }

    /// Writes what makes `internet` the one that a project of the user's reaches, for
    /// `sandbox.yaml`.
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
            bail!("{}; it said:\n{}", output.status, String::from_utf8_lossy(&output.stdout).trim_end());
        }
        Ok(())
    }

    /// Removes what the user left on the engine, what was installed, and the home. Whoever failed
    /// leaves all of it to be looked at.
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

    /// The start of a command of the user's, or of root's on the user's system.
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
