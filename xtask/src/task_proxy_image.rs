//! `proxy-image`: builds the static programs that containers run: the proxy, for which the library
//! creates an image, and the program that it mounts into other containers.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::cargo;
use crate::process::{self, command};
use crate::report::{say, step};
use crate::workspace;

/// The packages, whose programs have the same names.
pub(crate) const PROGRAMS: [&str; 2] = ["sandbox-proxy", INSIDE];
/// The program that runs inside other containers.
pub(crate) const INSIDE: &str = "sandbox-inside";

#[derive(Args)]
pub(crate) struct ProxyImageArgs {}

/// Prints the path, size and hash of each program.
pub(crate) fn run(_: &ProxyImageArgs) -> Result<()> {
    let proxy = build_released()?;
    for name in PROGRAMS {
        describe(&proxy.with_file_name(name))?;
    }
    say("the sandbox creates the image itself when it starts: FROM scratch, tagged by this content");
    Ok(())
}

fn describe(program: &Path) -> Result<()> {
    let size = program.metadata()?.len();
    let hash = process::output(command("sha256sum", ["--"]).arg(program))?;
    let hash = hash.split_whitespace().next().unwrap_or_default();
    println!("{} {size} bytes sha256:{hash}", program.display());
    Ok(())
}

/// Builds the programs for a release.
pub(crate) fn build_released() -> Result<PathBuf> {
    build(PROGRAMS.map(|name| (name, &["--release"][..])))
}

/// Builds the programs for tests: faster, and with the features that let tests make the proxy panic
/// and attack from inside. Unless tests request that, these programs behave like the released ones.
pub(crate) fn build_for_tests() -> Result<PathBuf> {
    build([
        ("sandbox-proxy", &["--profile", "tests", "--features", "forced-panic"][..]),
        (INSIDE, &["--profile", "tests", "--features", "attempts"][..]),
    ])
}

/// Builds the static programs into the folder where the library of a checkout looks for them;
/// returns the proxy's path.
fn build(programs: [(&str, &[&str]); 2]) -> Result<PathBuf> {
    let folder = workspace::target().join("proxy");
    for (name, options) in programs {
        step(&format!("building the static {name}"), || {
            cargo::static_program(name, name, options, &folder.join(name))
        })?;
    }
    Ok(folder.join("sandbox-proxy"))
}
