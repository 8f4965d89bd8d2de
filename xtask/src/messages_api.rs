//! The stand-in for the Messages API as a child process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// A running stand-in; it ends when this value is dropped, or when this process dies.
pub(crate) struct StandIn {
    child: Child,
    url: String,
}

impl StandIn {
    /// Builds it if necessary, starts it, and waits until it listens.
    pub(crate) fn start() -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut child = Command::new(cargo)
            .args(["run", "--quiet", "--package", "test-world", "--bin", "messages-api"])
            .current_dir(workspace::root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start the stand-in for the Messages API")?;
        let stdout = child.stdout.take().context("the stand-in has no stdout")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url).context("failed to read the stand-in's address")?;
        if url.trim().is_empty() {
            bail!("the stand-in for the Messages API ended without printing an address");
        }
        Ok(Self { child, url: url.trim().to_owned() })
    }

    /// The value for `ANTHROPIC_BASE_URL`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // It ends at the end of its standard input; killing cargo would leave the stand-in itself
        // running.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
