//! Installing what a task needs, where root and apt allow it.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::process::{self, command};
use crate::report::{say, step};

/// A program and the Debian package that brings it.
#[derive(Clone, Copy)]
pub(crate) struct Needed {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
}

/// Makes sure that every program is there; installs the packages of those that are not.
pub(crate) fn ensure(needed: &[Needed]) -> Result<()> {
    // Parts of a task that run side by side: apt works for one at a time, and what one installs
    // another need not.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let missing: Vec<_> =
        needed.iter().filter(|n| process::find_program(n.program).is_none()).map(|n| n.package).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs packages, saying so.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if process::find_program("apt-get").is_none() {
        bail!("these Debian packages, or their like, are needed and there is no apt-get here: {list}");
    }
    if !process::is_root() {
        bail!("these packages are missing; install them with `sudo apt-get install {list}`");
    }
    say(format!("installing with apt-get: {list}"));
    step("apt-get install", || {
        let mut update = command("apt-get", ["update", "-q"]);
        process::run_quietly(&mut update).context("failed to refresh apt's package lists")?;
        let mut install = command(
            "apt-get",
            ["install", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"],
        );
        // Servers are for the tests to start: at this run level none starts by itself.
        install.args(packages).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        process::run_quietly(&mut install).with_context(|| format!("failed to install {list}"))
    })
}
