//! cargo-deny: licences, sources, banned and doubled packages, advisories.

use std::path::PathBuf;

use anyhow::Result;

use crate::cargo::cargo;
use crate::process::{self, command};
use crate::report::{say, step};
use crate::workspace;

/// The version that `deny.toml` is written for.
const VERSION: &str = "0.20.2";
const OPTIONS: [&str; 4] = ["check", "--hide-inclusion-graph", "-D", "warnings"];

/// Holds the workspace, and that of the fuzz targets, against `deny.toml`.
pub(crate) fn check() -> Result<()> {
    let program = program()?;
    let deny = |manifest: &str, arguments: &[&str]| {
        let mut deny = command(&program, ["--manifest-path", manifest]);
        deny.current_dir(workspace::root()).args(arguments);
        deny
    };
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let mut rules = deny(manifest, &OPTIONS);
        process::run(rules.args(["licenses", "bans", "sources"]))?;
    }
    // The database of advisories belongs to no registry, so not every machine can reach it.
    if process::run_quietly(&mut deny("Cargo.toml", &["fetch", "db"])).is_err() {
        say("advisories were not checked: their database cannot be reached from here");
        return Ok(());
    }
    process::run(deny("Cargo.toml", &OPTIONS).args(["--disable-fetch", "advisories"]))
}

/// cargo-deny, built once for this checkout.
fn program() -> Result<PathBuf> {
    let root = workspace::state().join("cargo-deny").join(VERSION);
    let program = root.join("bin/cargo-deny");
    if !program.is_file() {
        step("building cargo-deny", || {
            let mut install = cargo(["install", "--quiet", "--locked", "--debug", "--version", VERSION]);
            // It runs for seconds: symbols and optimisation would cost more than they give.
            install.env("CARGO_PROFILE_DEV_DEBUG", "0");
            process::run(install.arg("--root").arg(&root).arg("cargo-deny"))
        })?;
    }
    Ok(program)
}
