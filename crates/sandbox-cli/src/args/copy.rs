//! `diff`, `apply` and `discard`: what becomes of a copy of the work tree.

use clap::Args;

use super::Output;

#[derive(Debug, Args)]
#[command(after_help = "\
A = added, M = modified, D = removed; ! = changed on this machine too; held back = `apply` leaves it out by default.")]
pub(crate) struct DiffArgs {
    /// Also show the changes in text files of up to 1 MiB
    #[arg(long, conflicts_with = "output")]
    pub(crate) patch: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = "\
All or nothing: when anything fails, the work tree is as it was; what a crash interrupts, the next command finishes or undoes.")]
pub(crate) struct ApplyArgs {
    /// Also apply what is held back: what programs of this machine run on their own, and links that
    /// lead out of the work tree
    #[arg(long)]
    pub(crate) include_protected: bool,
    /// Also apply where this machine changed the same file: the task's version wins
    #[arg(long)]
    pub(crate) force: bool,
    /// Also set this setting of git as the task did, which `sandbox diff` lists (repeatable)
    #[arg(long, value_name = "KEY")]
    pub(crate) git_config: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
