//! `proxy-image`: the static programs that containers run: the proxy, which `startup()` of the library makes an image of, the
//! supervisor of executors and the probe of `sandbox verify`, which it mounts.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::cargo;
use crate::process::{self, command};
use crate::report::{say, step};
use crate::workspace;

/// The package and its program.
pub(crate) const SUPERVISOR: &str = "sandbox-supervisor";

#[derive(Args)]
pub(crate) struct ProxyImageArgs {}

/// Prints path, size and hash of the programs.
pub(crate) fn run(_: &ProxyImageArgs) -> Result<()> {
    let program = build()?;
    describe(&program)?;
    describe(&program.with_file_name(SUPERVISOR))?;
    describe(&build_verify_probe()?)?;
    say("the image is made by the sandbox itself, when it starts: FROM scratch, tagged by this content");
    Ok(())
}

fn describe(program: &Path) -> Result<()> {
    let size = program.metadata()?.len();
    let hash = process::output(command("sha256sum", ["--"]).arg(program))?;
    let hash = hash.split_whitespace().next().unwrap_or_default();
    println!("{} {size} bytes sha256:{hash}", program.display());
    Ok(())
}

/// Builds the static programs into the folder where the library of a checkout looks for them; gives the proxy's path.
pub(crate) fn build() -> Result<PathBuf> {
    let program = workspace::target().join("proxy/sandbox-proxy");
    step("building the static proxy", || {
        cargo::static_program("sandbox-proxy", "sandbox-proxy", &["--release"], &program)
    })?;
    let supervisor = program.with_file_name(SUPERVISOR);
    step("building the static supervisor", || {
        cargo::static_program(SUPERVISOR, SUPERVISOR, &["--release"], &supervisor)
    })?;
    Ok(program)
}

/// Builds the static probe of `sandbox verify` beside it.
pub(crate) fn build_verify_probe() -> Result<PathBuf> {
    let name = "sandbox-verify-probe";
    let program = workspace::target().join("proxy").join(name);
    step("building the static probe of sandbox verify", || {
        cargo::static_program(name, name, &["--release"], &program)
    })?;
    Ok(program)
}
