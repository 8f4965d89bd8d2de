//! `submit`, `jobs`, `collect`, `cancel`, and the command of a job.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Output;
use crate::config::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum SlurmCommand {
    /// Submit bundles to Slurm as a job array, one task per bundle
    ///
    /// Each array task runs its bundle with rootless podman on its node, and writes the result to DIR/N once.
    /// It gets the memory, CPUs and time of the largest bundle. Prints the job ID. See `sandbox jobs`,
    /// `collect` and `cancel`, which take DIR.
    Submit(SubmitArgs),
    /// List submitted bundles with the state of their jobs
    Jobs(JobsArgs),
    /// Wait for the results of submitted bundles, and verify them
    ///
    /// A bundle whose API was busy (exit code 75) is requeued, up to 5 attempts in total. Ends with 0 if every
    /// bundle has a result, whatever its exit code, otherwise with 1.
    Collect(CollectArgs),
    /// Cancel submitted bundles
    ///
    /// Stops the containers before the job ends; plain `scancel` can leave them behind. Bundles that wait for
    /// a retry are not tried again. Cancelling is final.
    Cancel(CancelArgs),
    /// Run one submitted bundle on this node, as an element of Slurm's array
    #[command(hide = true)]
    Job(JobArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sandbox submit --slurm -j 12 -o ../results \\
      --image-archive ../image/images.tar ../*.bundle
  sandbox submit --slurm -o ../results \\
      --image-archive ../images.tar ../fix.bundle -- --partition=gpu --time=60
  sandbox collect --secrets-stdin ../results < secrets.json")]
pub(crate) struct SubmitArgs {
    /// Submit to Slurm, with `sbatch`
    #[arg(long, required = true)]
    pub(crate) slurm: bool,
    /// New folder for results and logs, on a file system that the nodes share
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output_dir: PathBuf,
    /// Archive of the bundles' images, from `sandbox image save` or `podman save`; each node loads it once
    #[arg(long, value_name = "FILE")]
    pub(crate) image_archive: PathBuf,
    /// Run at most N bundles at a time [default: no limit]
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroU32>,
    /// Node-local folder for images, unpacked trees and podman's storage
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) local: PathBuf,
    /// Bundles to run
    #[arg(required = true, value_name = "BUNDLE")]
    pub(crate) bundles: Vec<PathBuf>,
    /// Options for sbatch; --array, --job-name, --chdir, --output, --open-mode, --signal, --requeue and
    /// --export are set already
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) options: Vec<String>,
}

/// The folder that `submit` created.
#[derive(Debug, Args)]
pub(crate) struct SubmissionArg {
    /// Folder that `sandbox submit` created
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    #[command(flatten)]
    pub(crate) submission: SubmissionArg,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    #[command(flatten)]
    pub(crate) submission: SubmissionArg,
    /// Read secrets from stdin, a JSON object such as {"NAME": "VALUE"}, and send each job those that its
    /// bundle takes, encrypted by `munge`
    #[arg(long)]
    pub(crate) secrets_stdin: bool,
    /// Delay before the first retry of a bundle whose API was busy, doubled for each further one
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    pub(crate) retry_delay: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) submission: SubmissionArg,
    /// Numbers of bundles, as in `sandbox jobs` [default: all]
    #[arg(value_name = "N")]
    pub(crate) numbers: Vec<NonZeroU32>,
}

#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    pub(crate) submission: SubmissionArg,
    /// Folder on this node's own disk
    #[arg(long, value_name = "DIR")]
    pub(crate) local: PathBuf,
    /// Pass secrets from stdin to the job on this node
    #[arg(long)]
    pub(crate) secrets: bool,
}
