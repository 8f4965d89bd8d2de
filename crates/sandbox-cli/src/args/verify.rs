//! `verify`.

use clap::{Args, ValueEnum};
use sandbox::diagnostics::ExpectedProgram;

use super::{ImageArgs, Output};

#[derive(Debug, Args)]
#[command(after_help = "\
Containers of the project's image are started, and a program in them tries what must fail and what must work. Exit code 1 when a guarantee \
does not hold. One that cannot be looked at does not hold.

Example: sandbox verify --isolation untrusted --expect bash")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Whose guarantees to verify
    #[arg(long, value_enum, default_value_t)]
    pub(crate) isolation: Preset,
    /// Expects that the image has this program (bash, python) and that it works
    #[arg(long = "expect", value_name = "PROGRAM")]
    pub(crate) programs: Vec<ExpectedProgram>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// A set of guarantees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// A coding agent, that is root in its container, with its network sandbox
    #[default]
    Agent,
    /// A command that nobody vouches for, without a network
    Untrusted,
}
