//! What the model assumes, with the source of each number. Times are in seconds, sizes in bytes.

use anyhow::{Result, ensure};
use clap::Args;

/// "Assumed" marks numbers that depend on the site or the task: measure them and give them as options.
/// "Measured" is from a test cluster: three nodes with Slurm 22.05 on one machine with two processors.
#[derive(Debug, Clone, Args)]
pub(crate) struct Parameters {
    /// Tasks. Assumed
    #[arg(long, default_value_t = 10_000)]
    pub(crate) tasks: u32,
    /// New tasks a second, as a Poisson stream; 0: all at once. Assumed
    #[arg(long, default_value_t = 0.0)]
    pub(crate) arrivals: f64,
    /// Nodes. Assumed
    #[arg(long, default_value_t = 500)]
    pub(crate) nodes: u32,
    /// Tasks that a node runs at a time. Assumed
    #[arg(long, default_value_t = 4)]
    pub(crate) slots: u32,
    /// Tasks that run at a time on all nodes together. Assumed
    #[arg(short = 'j', long, default_value_t = 500)]
    pub(crate) at_once: u32,
    /// Tasks that the controller starts in a second. Assumed: a fiftieth of the 500 that Slurm's guide
    /// "High Throughput Computing" names for a tuned one
    #[arg(long, default_value_t = 10.0)]
    pub(crate) start_rate: f64,
    /// From a free place to the start of the task on its node. Measured: 1 to 2 s
    #[arg(long, default_value_t = 1.5)]
    pub(crate) start_delay: f64,
    /// Bytes a second of the file system that all nodes share. Assumed: one server at 10 Gbit/s
    #[arg(long, default_value_t = 1.25e9)]
    pub(crate) bandwidth: f64,
    /// Size of the image. Assumed
    #[arg(long, default_value_t = 1e9)]
    pub(crate) image: f64,
    /// Whether every node has the image at the start
    #[arg(long)]
    pub(crate) warm: bool,
    /// Import and builds of the first task on a node. Measured: 15 s with the 2 s of every task
    #[arg(long, default_value_t = 13.0)]
    pub(crate) preparation: f64,
    /// Size of a bundle. Assumed
    #[arg(long, default_value_t = 2e7)]
    pub(crate) bundle: f64,
    /// Size of a result. Assumed
    #[arg(long, default_value_t = 2e6)]
    pub(crate) result: f64,
    /// What the sandbox adds to a task on a warm node. Measured: 1.5 to 2 s
    #[arg(long, default_value_t = 2.0)]
    pub(crate) overhead: f64,
    /// API calls of a task. Assumed
    #[arg(long, default_value_t = 20)]
    pub(crate) calls: u32,
    /// Mean time until the API has answered. Assumed
    #[arg(long, default_value_t = 10.0)]
    pub(crate) answer: f64,
    /// Mean time that the agent's tools take before each call. Assumed
    #[arg(long, default_value_t = 5.0)]
    pub(crate) tools: f64,
    /// How far both times are from their mean at most, as a part of it. Assumed
    #[arg(long, default_value_t = 0.5)]
    pub(crate) spread: f64,
    /// The account's requests a minute. Anthropic's published limit for Claude Sonnet 4.x in tier 4
    #[arg(long, default_value_t = 4_000.0)]
    pub(crate) requests_per_minute: f64,
    /// The account's output tokens a minute. Published with the requests
    #[arg(long, default_value_t = 400_000.0)]
    pub(crate) tokens_per_minute: f64,
    /// Output tokens of a call. Assumed
    #[arg(long, default_value_t = 300.0)]
    pub(crate) tokens: f64,
    /// How often the agent repeats a refused call. Recorded: `max_retries` in the fixture
    /// rate-limit-retries.jsonl of claude-output
    #[arg(long, default_value_t = 10)]
    pub(crate) retries: i32,
    /// Delay before the first repetition; doubles each time, plus up to a quarter. Recorded there, too
    #[arg(long, default_value_t = 0.5)]
    pub(crate) retry_delay: f64,
    /// The longest delay of a repetition. Assumed
    #[arg(long, default_value_t = 32.0)]
    pub(crate) longest_retry_delay: f64,
    /// How often a task may end with exit code 75 before it is given up. Assumed
    #[arg(long, default_value_t = 5)]
    pub(crate) attempts: i32,
    /// Delay of the second attempt; doubles each time, plus or minus up to a half. Assumed
    #[arg(long, default_value_t = 60.0)]
    pub(crate) attempt_delay: f64,
    /// Mean time between failures of a node; 0: never. Assumed: 30 days, which is pessimistic
    #[arg(long, default_value_t = 2_592_000.0)]
    pub(crate) failures: f64,
    /// From a failure until it is noticed. Slurm's default of `SlurmdTimeout`
    #[arg(long, default_value_t = 300.0)]
    pub(crate) notice: f64,
    /// From then until the node's tasks may start elsewhere. Measured for a requeue by command with Slurm's defaults
    #[arg(long, default_value_t = 121.0)]
    pub(crate) requeue_delay: f64,
    /// From then until the node is back, without the image. Assumed
    #[arg(long, default_value_t = 3_600.0)]
    pub(crate) repair: f64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Parameters {
    /// Refuses numbers that the model cannot use.
    pub(crate) fn check(&self) -> Result<()> {
        let counts = [self.tasks, self.nodes, self.slots, self.at_once, self.calls];
        ensure!(!counts.contains(&0), "tasks, nodes, slots, -j and calls must not be 0");
        ensure!(
            self.retries >= 0 && (1..=20).contains(&self.attempts),
            "retries from 0, attempts from 1 to 20"
        );
        let rates = [self.start_rate, self.bandwidth, self.requests_per_minute, self.tokens_per_minute];
        ensure!(rates.iter().all(|rate| *rate > 0.0), "rates and limits must be greater than 0");
        ensure!((0.0..=1.0).contains(&self.spread), "spread must be between 0 and 1");
        let delays =
            [self.start_delay, self.preparation, self.overhead, self.answer, self.tools, self.notice];
        let longer = [self.retry_delay, self.longest_retry_delay, self.attempt_delay, self.requeue_delay];
        let others =
            [self.arrivals, self.image, self.bundle, self.result, self.tokens, self.failures, self.repair];
        let mut others = delays.into_iter().chain(longer).chain(others);
        ensure!(others.all(|number| (0.0..1e15).contains(&number)), "a number is negative or too large");
        Ok(())
    }

    /// Tasks that can run at a time.
    pub(crate) fn places(&self) -> f64 {
        f64::from(self.at_once).min(f64::from(self.nodes) * f64::from(self.slots))
    }

    /// Tasks at a time that together make as many calls as the account may, and at least one.
    pub(crate) fn fed(&self) -> u32 {
        let round = self.answer + self.tools;
        (1..self.at_once)
            .find(|tasks| f64::from(tasks + 1) > self.call_rate() * round)
            .unwrap_or(self.at_once)
    }

    /// Calls a second that the account may make. Requests and tokens are one limit, because each call
    /// has the same number of tokens.
    pub(crate) fn call_rate(&self) -> f64 {
        self.requests_per_minute.min(self.tokens_per_minute / self.tokens.max(1.0)) / 60.0
    }
}
