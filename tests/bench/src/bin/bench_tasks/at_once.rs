//! Several `true` at once, as a user starts them: with the engine's own command and with ours.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use benchmarks::Sample;
use futures_util::future::try_join_all;

use super::Args;
use super::report::AtOnceTimes;
use super::sandboxed::CommandLine;
use super::terminal::command_of;

/// For what podman does after its command has ended.
const AFTERMATH: Duration = Duration::from_millis(500);

/// The samples of one number of commands.
#[derive(Debug, Default)]
pub(crate) struct AtOnce {
    count: u32,
    podman: Sample,
    without_network: Sample,
    sandboxed: Sample,
}

impl AtOnce {
    pub(crate) fn spread(&self) -> AtOnceTimes {
        AtOnceTimes {
            count: self.count,
            podman_ms: self.podman.spread(),
            without_network_ms: self.without_network.spread(),
            sandboxed_ms: self.sandboxed.spread(),
        }
    }
}

/// Measures one, eight and thirty at once; many take long, so there are fewer rounds of them.
pub(crate) async fn measure(args: &Args, command: &CommandLine<'_>) -> Result<Vec<AtOnceTimes>> {
    let mut measured = Vec::new();
    for (count, rounds) in [(1, args.rounds), (8, args.rounds.div_ceil(4)), (30, args.rounds.div_ceil(4))] {
        round(args, command, &mut AtOnce { count, ..AtOnce::default() }).await?;
        let mut samples = AtOnce { count, ..AtOnce::default() };
        for _ in 0..rounds {
            round(args, command, &mut samples).await?;
        }
        measured.push(samples.spread());
    }
    Ok(measured)
}

async fn round(args: &Args, command: &CommandLine<'_>, samples: &mut AtOnce) -> Result<()> {
    let podman = |network: &[&str]| {
        let mut podman = command_of(&args.podman);
        podman.args(["run", "--rm"]).args(network).args([&args.image, "true"]);
        podman
    };
    samples.podman.push(all(samples.count, || podman(&[])).await?);
    samples.without_network.push(all(samples.count, || podman(&["--network", "none"])).await?);
    samples.sandboxed.push(all(samples.count, || command.of(&["run", "--", "true"])).await?);
    command.await_removal().await
}

/// The milliseconds until the last of `count` commands has ended. Each must succeed.
async fn all(count: u32, command: impl Fn() -> Command) -> Result<f64> {
    let run = async || {
        let mut command = command();
        command.stdin(Stdio::null());
        let ended = tokio::process::Command::from(command).output().await.context("failed to start")?;
        if !ended.status.success() {
            bail!("one of {count} ended with {}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
        }
        Ok(())
    };
    let begin = Instant::now();
    try_join_all((0..count).map(|_| run())).await?;
    let wall = begin.elapsed();
    tokio::time::sleep(AFTERMATH).await;
    Ok(wall.as_secs_f64() * 1e3)
}
