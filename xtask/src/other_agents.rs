//! The real programs of agents other than Claude Code, at the versions that their profiles were
//! tested with.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::npm;

const CODEX: &str = "0.169.0";
const GEMINI: &str = "0.61.0";
const OPENCODE: &str = "1.18.33";
/// The Node.js for Gemini CLI, since those of distributions are older.
const NODE: &str = "22.23.3";

/// The paths of the programs.
pub(crate) struct OtherAgents {
    pub(crate) codex: PathBuf,
    pub(crate) gemini: PathBuf,
    pub(crate) opencode: PathBuf,
    pub(crate) node: PathBuf,
}

/// The programs from npm for this machine's architecture, fetched once.
pub(crate) fn programs() -> Result<OtherAgents> {
    let (npm_arch, triple) = match std::env::consts::ARCH {
        "x86_64" => ("x64", "x86_64-unknown-linux-musl"),
        "aarch64" => ("arm64", "aarch64-unknown-linux-musl"),
        other => bail!("there are no agents for {other}"),
    };
    let fetched = |package: &str, version: &str, program: &str| -> Result<PathBuf> {
        let folder = format!("agent-{}-{version}", package.replace(['@', '/'], "_"));
        let program = npm::unpacked(&format!("{package}@{version}"), &folder)?.join(program);
        if !program.is_file() {
            bail!("{package} has no program at {}", program.display());
        }
        Ok(program)
    };
    Ok(OtherAgents {
        codex: fetched(
            "@openai/codex",
            &format!("{CODEX}-linux-{npm_arch}"),
            &format!("vendor/{triple}/bin/codex"),
        )?,
        gemini: fetched("@google/gemini-cli", GEMINI, "bundle/gemini.js")?,
        // This build also runs on processors without AVX2.
        opencode: match npm_arch {
            "x64" => fetched("opencode-linux-x64-baseline", OPENCODE, "bin/opencode")?,
            _ => fetched("opencode-linux-arm64", OPENCODE, "bin/opencode")?,
        },
        node: fetched(&format!("node-linux-{npm_arch}"), NODE, "bin/node")?,
    })
}
