//! `proxy-image`: the static programs that containers run: the proxy, which the library makes an image of, and the
//! program that it mounts into other containers.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::cargo;
use crate::process::{self, command};
use crate::report::{say, step};
use crate::workspace;

/// The packages and their programs.
pub(crate) const PROGRAMS: [&str; 2] = ["sandbox-proxy", INSIDE];
/// The one that runs inside of containers.
pub(crate) const INSIDE: &str = "sandbox-inside";

/// The profile of programs that are not shipped.
pub(crate) const FOR_TESTS: [&str; 2] = ["--profile", "tests"];

#[derive(Args)]
pub(crate) struct ProxyImageArgs {}

/// Prints path, size and hash of the programs.
pub(crate) fn run(_: &ProxyImageArgs) -> Result<()> {
    let proxy = build(&["--release"])?;
    for name in PROGRAMS {
        describe(&proxy.with_file_name(name))?;
    }
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
pub(crate) fn build(profile: &[&str]) -> Result<PathBuf> {
    let folder = workspace::target().join("proxy");
    for name in PROGRAMS {
        step(&format!("building the static {name}"), || {
            cargo::static_program(name, name, profile, &folder.join(name))
        })?;
    }
    Ok(folder.join("sandbox-proxy"))
}
