//! `proxy-image`: the static proxy, which `startup()` of the library makes an image of.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::cargo;
use crate::process::{self, command};
use crate::report::{say, step};
use crate::workspace;

#[derive(Args)]
pub(crate) struct ProxyImageArgs {}

/// Prints path, size and hash of the program.
pub(crate) fn run(_: &ProxyImageArgs) -> Result<()> {
    let program = build()?;
    let size = program.metadata()?.len();
    let hash = process::output(command("sha256sum", ["--"]).arg(&program))?;
    let hash = hash.split_whitespace().next().unwrap_or_default();
    println!("{} {size} bytes sha256:{hash}", program.display());
    say("the image is made by the sandbox itself, when it starts: FROM scratch, tagged by this content");
    Ok(())
}

/// Builds the static proxy into the folder where the library of a checkout looks for it.
pub(crate) fn build() -> Result<PathBuf> {
    let program = workspace::target().join("proxy/sandbox-proxy");
    step("building the static proxy", || {
        cargo::static_program("sandbox-proxy", "sandbox-proxy", &["--release"], &program)
    })?;
    Ok(program)
}
