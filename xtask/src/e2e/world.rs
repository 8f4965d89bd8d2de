//! The internet of one run of the tests: a server process in the engine's *world* namespace.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;

/// Where the name server and the origin listen: `tests/world` has the same constant.
const ADDRESS: &str = "203.0.113.10";
const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----";

/// A running world; it ends when this is dropped, or when this process ends.
pub(crate) struct World {
    child: Child,
}

impl World {
    /// Starts it with `program`, whose arguments follow, and waits until it listens. Tests ask it
    /// at `socket`.
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
        // The end of its standard input is its end.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
