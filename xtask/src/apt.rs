//! Installs programs that a task needs, where root and apt are available.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::process::{self, command};
use crate::report::{say, step};

/// A program and the Debian package that contains it.
#[derive(Clone, Copy)]
pub(crate) struct Needed {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
}

/// Installs the packages of the programs that are missing.
pub(crate) fn ensure(needed: &[Needed]) -> Result<()> {
    // Parts of a task run in parallel: apt serves one at a time, and a part need not install what
    // another one has installed.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let missing: Vec<_> =
        needed.iter().filter(|n| process::find_program(n.program).is_none()).map(|n| n.package).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs packages, and reports that it does.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if process::find_program("apt-get").is_none() {
        bail!("apt-get is not available; install these Debian packages or their equivalents: {list}");
    }
    if !process::is_root() {
        bail!("packages are missing; install them with `sudo apt-get install {list}`");
    }
    say(format!("installing with apt-get: {list}"));
    step("apt-get install", || {
        let mut update = command("apt-get", ["update", "-q"]);
        process::run_quietly(&mut update).context("failed to refresh apt's package lists")?;
        let mut install = command(
            "apt-get",
            ["install", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"],
        );
        // The tests start servers themselves: at this run level the packages start none.
        install.args(packages).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        process::run_quietly(&mut install).with_context(|| format!("failed to install {list}"))
    })
}
