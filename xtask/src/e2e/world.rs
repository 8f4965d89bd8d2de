//! The internet of one run of the tests: a server process in the engine's *world* namespace.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;

/// The address of the name server and the origin; `tests/world` has the same constant.
const ADDRESS: &str = "203.0.113.10";
const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----";

/// A running world; it ends when this value is dropped, or when this process ends.
pub(crate) struct World {
    child: Child,
}

impl World {
    /// Starts `program` with its arguments, and waits until it listens. Tests control it through
    /// `socket`.
    pub(crate) fn start(mut program: Command, socket: &Path) -> Result<Self> {
        program.arg(ADDRESS).arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let what = process::describe(&program);
        let mut child = program.spawn().with_context(|| format!("failed to start {what}"))?;
        let output = BufReader::new(child.stdout.take().context("the world has no stdout")?);
        let is_ready = output.lines().map_while(Result::ok).any(|line| line == END_OF_CERTIFICATE);
        let world = Self { child };
        if !is_ready {
            bail!("{what} ended before it listened");
        }
        Ok(world)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The process ends at the end of its standard input.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
