//! Debian file systems built with `mmdebstrap`: roots for engines, tars for images, without any
//! registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::apt::{self, Needed};
use crate::process::{self, command};
use crate::report::step;
use crate::workspace;

/// The plan of a Debian file system: a release, and packages in addition to the minimal system.
pub(crate) struct Debian {
    pub(crate) suite: &'static str,
    pub(crate) packages: &'static [&'static str],
}

/// Files that are not installed, such as manuals.
const LEFT_OUT: [&str; 4] =
    ["/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*"];

impl Debian {
    /// The file system as a folder, built once per package list.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = workspace::state().join("roots").join(format!("{name}-{}", self.key()));
        let complete = marker(&folder);
        if complete.exists() {
            return Ok(folder);
        }
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("failed to remove the unfinished {}", folder.display()))?;
        }
        step(&format!("making a Debian {} system for {name}", self.suite), || {
            self.make(&folder)?;
            fs::write(&complete, "").with_context(|| format!("failed to write {}", complete.display()))
        })?;
        Ok(folder)
    }

    /// The file system as a tar, built once per package list and month.
    pub(crate) fn tar(&self, name: &str) -> Result<PathBuf> {
        let file = workspace::state().join("images").join(format!("{name}-{}.tar", self.monthly_key()));
        if file.exists() {
            return Ok(file);
        }
        step(&format!("making the file system of {name}:{}", self.suite), || {
            let unfinished = file.with_extension("unfinished.tar");
            self.make(&unfinished)?;
            fs::rename(&unfinished, &file).with_context(|| format!("failed to place {}", file.display()))
        })?;
        Ok(file)
    }

    /// Identifies the content of the tar; changes monthly, so that security updates arrive.
    pub(crate) fn monthly_key(&self) -> String {
        let month = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_secs() / (30 * 24 * 3600));
        format!("{}-{month}", self.key())
    }

    fn key(&self) -> String {
        let text = format!("{} {} {}", self.suite, self.packages.join(" "), LEFT_OUT.join(" "));
        format!("{:08x}", workspace::fingerprint(text.as_bytes()) >> 32)
    }

    fn make(&self, destination: &Path) -> Result<()> {
        apt::ensure(&[Needed { program: "mmdebstrap", package: "mmdebstrap" }])?;
        let parent = destination.parent().unwrap_or(destination);
        fs::create_dir_all(parent).with_context(|| format!("failed to create {}", parent.display()))?;
        process::run_quietly(&mut self.mmdebstrap(destination))
    }

    fn mmdebstrap(&self, destination: &Path) -> Command {
        let mut mmdebstrap = command("mmdebstrap", ["--variant=minbase"]);
        mmdebstrap.arg(format!("--include={}", self.packages.join(",")));
        mmdebstrap.args(LEFT_OUT.map(|pattern| format!("--dpkgopt=path-exclude={pattern}")));
        mmdebstrap.arg("--dpkgopt=path-include=/usr/share/doc/*/copyright");
        mmdebstrap.arg(self.suite).arg(destination);
        if let Some(mirror) = std::env::var_os("XTASK_DEBIAN_MIRROR") {
            mmdebstrap.arg(mirror);
        }
        mmdebstrap
    }
}

/// Marks a folder as complete. It is next to the folder, which becomes a container engine's root.
fn marker(folder: &Path) -> PathBuf {
    folder.with_extension("complete")
}
