//! Packages from npm. Their scripts do not run.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::apt::{self, Needed};
use crate::process::{self, command};
use crate::report::step;
use crate::workspace;

/// Fetches a package once; returns its folder `package`.
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
        fs::create_dir_all(&unfinished)
            .with_context(|| format!("failed to create {}", unfinished.display()))?;
        let mut pack = command("npm", ["pack", "--silent", specifier]);
        process::run_quietly(pack.current_dir(&unfinished))?;
        let tarball = only_tarball(&unfinished)?;
        let mut unpack = command("tar", ["--extract", "--no-same-owner", "--file"]);
        process::run_quietly(unpack.arg(&tarball).current_dir(&unfinished))?;
        fs::remove_file(&tarball)?;
        fs::rename(&unfinished, &folder).with_context(|| format!("failed to place {}", folder.display()))
    })?;
    if !package.join("package.json").is_file() {
        bail!("{specifier} has no package.json in {}", folder.display());
    }
    Ok(package)
}

/// Installs packages and their dependencies once; returns the folder `node_modules`.
pub(crate) fn installed(specifiers: &[&str], name: &str) -> Result<PathBuf> {
    let folder = workspace::state().join(name);
    let modules = folder.join("node_modules");
    apt::ensure(&[Needed { program: "npm", package: "npm" }, Needed { program: "node", package: "nodejs" }])?;
    if modules.is_dir() {
        return Ok(modules);
    }
    let unfinished = workspace::state().join(format!("{name}.unfinished"));
    step(&format!("installing {} with npm", specifiers.join(" and ")), || {
        drop(fs::remove_dir_all(&unfinished));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&unfinished)
            .with_context(|| format!("failed to create {}", unfinished.display()))?;
        let mut install = command(
            "npm",
            ["install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"],
        );
        process::run_quietly(install.arg(&unfinished).args(specifiers))?;
        fs::rename(&unfinished, &folder).with_context(|| format!("failed to place {}", folder.display()))
    })?;
    if !modules.is_dir() {
        bail!("npm installed nothing in {}", modules.display());
    }
    Ok(modules)
}

fn only_tarball(folder: &std::path::Path) -> Result<PathBuf> {
    fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .with_context(|| format!("npm pack left no tarball in {}", folder.display()))
}
