//! Finds the real Claude Code program, or fetches it.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::npm;
use crate::process;
use crate::workspace;

/// The program that the user specified, else npm's for this machine's architecture, fetched once.
pub(crate) fn program(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return path.canonicalize().with_context(|| format!("there is no Claude Code at {}", path.display()));
    }
    let package = match std::env::consts::ARCH {
        "x86_64" => "@anthropic-ai/claude-code-linux-x64",
        "aarch64" => "@anthropic-ai/claude-code-linux-arm64",
        other => bail!("there is no Claude Code for {other}; specify one with --claude-bin PATH"),
    };
    let program = npm::unpacked(package, "claude-code")?.join("claude");
    if !is_program(&program) {
        bail!("{package} has no program at {}", program.display());
    }
    Ok(program)
}

/// The specified program, else `CLAUDE_BIN`, else `claude` on PATH, else npm's.
pub(crate) fn installed_program(given: Option<&Path>) -> Result<PathBuf> {
    let named = std::env::var_os("CLAUDE_BIN").map(PathBuf::from);
    let on_path = || process::find_program("claude")?.canonicalize().ok().filter(|path| is_program(path));
    match given.map(Path::to_path_buf).or(named).or_else(on_path) {
        Some(path) => program(Some(&path)),
        None => program(None),
    }
}

/// Like [`installed_program`], at a path that private engines see: under the checkout or `/tmp`,
/// else copied there.
pub(crate) fn visible_program(given: Option<&Path>) -> Result<PathBuf> {
    let program = installed_program(given)?;
    if program.starts_with(workspace::root()) || program.starts_with("/tmp") {
        return Ok(program);
    }
    let copy = workspace::state().join("claude-bin/claude");
    let size = |path: &Path| fs::metadata(path).map(|data| data.len()).ok();
    if size(&copy).is_none() || size(&copy) != size(&program) {
        fs::create_dir_all(copy.parent().context("the copy has no folder")?)?;
        fs::copy(&program, &copy).with_context(|| format!("failed to copy {}", program.display()))?;
    }
    Ok(copy)
}

/// A launcher script cannot be mounted into a container on its own; an ELF program can.
fn is_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok() && magic == *b"\x7fELF")
}
