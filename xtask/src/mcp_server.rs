//! A third-party MCP server: the reference server of the protocol's authors.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::npm;

const PACKAGE: &str = "@modelcontextprotocol/server-everything";
const VERSION: &str = "2025.12.18";
/// Its library for HTTP, pinned; it would accept any newer version.
const SDK: &str = "@modelcontextprotocol/sdk@1.32.2";

/// Its program for Node.js, installed once for each version.
pub(crate) fn program() -> Result<PathBuf> {
    let name = format!("tools/mcp-server-{VERSION}");
    let modules = npm::installed(&[&format!("{PACKAGE}@{VERSION}"), SDK], &name)?;
    let program = modules.join(PACKAGE).join("dist/index.js");
    if !program.is_file() {
        bail!("{PACKAGE} has no program at {}", program.display());
    }
    Ok(program)
}
