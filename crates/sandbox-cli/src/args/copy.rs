//! `diff`, `apply` and `discard`: a task's changes in its copy of the work tree.

use std::path::PathBuf;

use clap::Args;

use super::Output;

/// Whose copy is meant.
#[derive(Debug, Args)]
pub(crate) struct CopyOfRun {
    /// Run whose project is meant, by its id or a prefix of it; its later runs use the same copy
    /// [default: the project of this folder]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
}

/// A result instead of a copy.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// Take the changes in this result of `sandbox run --bundle`; it remains as it is
    #[arg(long, value_name = "DIR", conflicts_with = "run")]
    pub(crate) result: Option<PathBuf>,
    /// Bundle of the result [default: the file that `sandbox bundle` wrote on this host]
    #[arg(long, value_name = "FILE", requires = "result")]
    pub(crate) bundle: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A = added, M = modified, D = removed; ! = also changed on the host; withheld = `apply` leaves it out by default.")]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) copy: CopyOfRun,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
    /// Also show the changes in text files of up to 1 MiB
    #[arg(long, conflicts_with = "output")]
    pub(crate) patch: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = "\
All or nothing: if anything fails, the work tree is unchanged; the next command finishes or undoes \
what a crash interrupted.")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) copy: CopyOfRun,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
    /// Also apply withheld changes: files that host tools execute implicitly, and links that lead
    /// out of the work tree
    #[arg(long)]
    pub(crate) include_protected: bool,
    /// Also apply changes to files that changed on the host: the task's version wins
    #[arg(long)]
    pub(crate) force: bool,
    /// Also apply this git setting of the task, as listed by `sandbox diff` (repeatable)
    #[arg(long, value_name = "KEY", conflicts_with = "result")]
    pub(crate) git_config: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
