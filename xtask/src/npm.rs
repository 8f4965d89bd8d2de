//! Packages from npm, unpacked without being installed: none of their scripts run.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::apt::{self, Needed};
use crate::process::{self, command};
use crate::report::step;
use crate::workspace;

/// The folder `package` of the package, fetched once.
pub(crate) fn unpacked(specifier: &str, name: &str) -> Result<PathBuf> {
    let folder = workspace::state().join(name);
    let package = folder.join("package");
    if package.join("package.json").is_file() {
        return Ok(package);
    }
    apt::ensure(&[Needed { program: "npm", package: "npm" }, Needed { program: "tar", package: "tar" }])?;
    let unfinished = workspace::state().join(format!("{name}.unfinished"));
    step(&format!("fetching {specifier} with npm pack"), || {
        drop(fs::remove_dir_all(&unfinished));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&unfinished).with_context(|| format!("cannot make {}", unfinished.display()))?;
        let mut pack = command("npm", ["pack", "--silent", specifier]);
        process::run_quietly(pack.current_dir(&unfinished))?;
        let tarball = only_tarball(&unfinished)?;
        let mut unpack = command("tar", ["--extract", "--no-same-owner", "--file"]);
        process::run_quietly(unpack.arg(&tarball).current_dir(&unfinished))?;
        fs::remove_file(&tarball)?;
        fs::rename(&unfinished, &folder).with_context(|| format!("cannot place {}", folder.display()))
    })?;
    if !package.join("package.json").is_file() {
        bail!("{specifier} unpacked to something without package.json in {}", folder.display());
    }
    Ok(package)
}

fn only_tarball(folder: &std::path::Path) -> Result<PathBuf> {
    fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .with_context(|| format!("npm pack left no tarball in {}", folder.display()))
}
