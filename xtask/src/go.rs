//! Go's command, without its compiler and library: fetching modules needs neither.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

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
        process::run_quietly(command("apt-get", ["download", PACKAGE]).current_dir(&unfinished))?;
        let unpack =
            format!("dpkg-deb --fsys-tarfile *.deb | tar x ./{ROOT}/bin/go ./{ROOT}/VERSION && rm *.deb");
        process::run_quietly(command("sh", ["-c", &unpack]).current_dir(&unfinished))?;
        fs::rename(&unfinished, &folder).with_context(|| format!("failed to place {}", folder.display()))
    })?;
    Ok(root)
}
