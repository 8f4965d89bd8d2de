//! Go's command, without its compiler and library: fetching modules needs neither.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::apt::{self, Needed};
use crate::process::{self, command};
use crate::report::step;
use crate::workspace;

const PACKAGE: &str = "golang-1.19-go";
/// Where the package has it.
const ROOT: &str = "usr/lib/go-1.19";

/// Go's root with its command, unpacked once from Debian's package.
pub(crate) fn root() -> Result<PathBuf> {
    let folder = workspace::state().join(format!("tools/{PACKAGE}"));
    let root = folder.join(ROOT);
    if root.join("bin/go").is_file() {
        return Ok(root);
    }
    apt::ensure(&[
        Needed { program: "dpkg-deb", package: "dpkg" },
        Needed { program: "tar", package: "tar" },
    ])?;
    let unfinished = folder.with_extension("unfinished");
    step(&format!("fetching {PACKAGE} with apt-get download"), || {
        drop(fs::remove_dir_all(&unfinished));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&unfinished)
            .with_context(|| format!("failed to create {}", unfinished.display()))?;
        let mut download = command("apt-get", ["download", PACKAGE]);
        if process::run_quietly(download.current_dir(&unfinished)).is_err() {
            // The lists of packages may be missing or old.
            process::run_quietly(&mut command("apt-get", ["update", "-q"]))?;
            process::run_quietly(&mut download)?;
        }
        let unpack =
            format!("dpkg-deb --fsys-tarfile *.deb | tar x ./{ROOT}/bin/go ./{ROOT}/VERSION && rm *.deb");
        process::run_quietly(command("sh", ["-c", &unpack]).current_dir(&unfinished))?;
        fs::rename(&unfinished, &folder).with_context(|| format!("failed to place {}", folder.display()))
    })?;
    if !root.join("bin/go").is_file() {
        bail!("{PACKAGE} has no program at {}", root.display());
    }
    Ok(root)
}
