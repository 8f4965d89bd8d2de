//! A third-party S3 server, which verifies signatures.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::cargo::cargo;
use crate::process;
use crate::report::step;
use crate::workspace;

const PACKAGE: &str = "s3s-fs";
const VERSION: &str = "0.14.1";

/// The server's program, built once for each version, with a lock file and a build folder of its
/// own.
pub(crate) fn program() -> Result<PathBuf> {
    let root = workspace::state().join(format!("tools/{PACKAGE}-{VERSION}"));
    let program = root.join("bin").join(PACKAGE);
    if program.is_file() {
        return Ok(program);
    }
    step(&format!("building {PACKAGE} {VERSION}"), || {
        let mut install = cargo(["install", "--quiet", "--locked", "--debug", "--features", "binary"]);
        install
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            // It hashes all data that it receives.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .args(["--version", VERSION])
            .arg("--root")
            .arg(&root)
            .arg("--target-dir")
            .arg(workspace::state().join("tools/build"))
            .arg(PACKAGE);
        process::run(&mut install)
    })?;
    if !program.is_file() {
        bail!("cargo did not install {}", program.display());
    }
    Ok(program)
}
