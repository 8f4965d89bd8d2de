//! Images that contain one static program and nothing else.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::http::Socket;
use crate::process::{self, command};
use crate::report::step;
use crate::workspace;

/// Imports an image of the program into the engine unless it exists; returns the image's reference,
/// which identifies its content.
pub(crate) fn ensure_program_image(socket: &Socket, name: &str, program: &Path) -> Result<String> {
    let bytes = fs::read(program).with_context(|| format!("failed to read {}", program.display()))?;
    let reference = format!("localhost/{name}:{:016x}", workspace::fingerprint(&bytes));
    let found = socket.request("GET", &format!("/v4.0.0/libpod/images/{reference}/exists"))?;
    if found.status == 204 {
        return Ok(reference);
    }
    step(&format!("importing {reference}"), || {
        let tar = archive(name, program)?;
        let target = format!("/v4.0.0/libpod/images/import?reference={reference}");
        let imported = socket.send_file("POST", &target, &tar)?.ok();
        drop(fs::remove_file(&tar));
        imported.map(drop).with_context(|| format!("failed to import {reference}"))
    })?;
    Ok(reference)
}

fn archive(name: &str, program: &Path) -> Result<std::path::PathBuf> {
    let file = workspace::state().join(format!("{name}.tar"));
    let folder = program.parent().context("the program has no folder")?;
    let mut tar = command("tar", ["--create", "--owner=0", "--group=0", "--numeric-owner", "--file"]);
    tar.arg(&file).arg("--directory").arg(folder);
    tar.arg(program.file_name().context("the program has no name")?);
    fs::create_dir_all(workspace::state())?;
    process::run_quietly(&mut tar)?;
    Ok(file)
}
