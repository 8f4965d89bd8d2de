//! Developer tasks: `cargo xtask TASK`.
//!
//! One file per task (`task_*.rs`); shared code is in modules named after the thing they handle.
//! stdout has only output that another program may read (a socket URL, a path); everything else
//! goes to stderr.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer tool that runs programs and reports their progress"
)]

mod apt;
mod archive;
mod bench;
mod browser;
mod cargo;
mod ci_runners;
mod claude_code;
mod debian;
mod demo;
mod deny;
mod e2e;
mod engine;
mod go;
mod kubernetes;
mod markdown;
mod matrix;
mod mcp_server;
mod messages_api;
mod netns;
mod nextest;
mod npm;
mod other_agents;
mod packages;
mod process;
mod publishing;
mod pypi;
mod report;
mod reproducible;
mod results;
mod s3_server;
mod sbom;
mod scrub;
mod slurm;
mod storm;
mod task_base_image;
mod task_bench;
mod task_browser;
mod task_claude_bin;
mod task_demo;
mod task_dist;
mod task_e2e;
mod task_engine;
mod task_fixtures;
mod task_fuzz;
mod task_proxy_image;
mod task_storm;
mod task_test;
mod task_tidy;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer tasks of the sandbox workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_version_flag = true)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show what the sandbox does, on this machine, without any preparation.
    Demo(task_demo::DemoArgs),
    /// Find or start a podman engine and print its socket URL.
    Engine(task_engine::EngineArgs),
    /// Build Debian images for tasks and import them into an engine.
    BaseImage(task_base_image::BaseImageArgs),
    /// Build the static programs that containers run.
    ProxyImage(task_proxy_image::ProxyImageArgs),
    /// Print the path of Claude Code's program; fetch it with npm if there is none.
    ClaudeBin(task_claude_bin::ClaudeBinArgs),
    /// Run the end-to-end tests on real podman.
    E2e(task_e2e::E2eArgs),
    /// Run the checks that every change must pass: format, lints, tidy, tests without an engine,
    /// reports in a browser, the fast end-to-end tests, the demo.
    ///
    /// This starts three engines, and needs root and apt. `--all` starts six, and needs loop
    /// devices and a kernel with btrfs.
    Test(task_test::TestArgs),
    /// Check the house rules that a program can check.
    Tidy(task_tidy::TidyArgs),
    /// Record the output of the real Claude Code.
    Fixtures(task_fixtures::FixturesArgs),
    /// Fuzz all code that reads hostile bytes.
    Fuzz(task_fuzz::FuzzArgs),
    /// Open reports with hostile text in Chromium, and check that they are inert and accessible.
    Browser(task_browser::BrowserArgs),
    /// Measure the overhead of the sandbox.
    Bench(task_bench::BenchArgs),
    /// Test that nothing is left, lost or disturbed by failures around a task.
    Storm(task_storm::StormArgs),
    /// Pack the `sandbox` command with the programs that it puts into containers, manual,
    /// completions, licences and a bill of materials, for Debian, for Fedora and as an archive.
    Dist(task_dist::DistArgs),
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Demo(args) => task_demo::run(&args),
        Task::Engine(args) => task_engine::run(&args),
        Task::BaseImage(args) => task_base_image::run(&args),
        Task::ProxyImage(args) => task_proxy_image::run(&args),
        Task::ClaudeBin(args) => task_claude_bin::run(&args),
        Task::E2e(args) => task_e2e::run(&args),
        Task::Test(args) => task_test::run(&args),
        Task::Tidy(args) => task_tidy::run(&args),
        Task::Fixtures(args) => task_fixtures::run(&args),
        Task::Fuzz(args) => task_fuzz::run(&args),
        Task::Browser(args) => task_browser::run(&args),
        Task::Bench(args) => task_bench::run(&args),
        Task::Storm(args) => task_storm::run(&args),
        Task::Dist(args) => task_dist::run(&args),
    }
}
