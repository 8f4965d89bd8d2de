//! `verify`.

use clap::{Args, ValueEnum};
use sandbox::diagnostics::ExpectedProgram;

use super::{ImageArgs, Output};

#[derive(Debug, Args)]
#[command(after_help = "\
Starts containers of the project's image and, in them, a program that tries what must fail and \
what must work. Exit code 1 if a guarantee does not hold or cannot be checked.

Example: sandbox verify --isolation untrusted --expect bash")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Profile to verify
    #[arg(long, value_enum, default_value_t)]
    pub(crate) isolation: Preset,
    /// Require this program (bash, python) to exist in the image and to work
    #[arg(long = "expect", value_name = "PROGRAM")]
    pub(crate) programs: Vec<ExpectedProgram>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// A set of guarantees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// A coding agent: root in its container, with its network sandbox
    #[default]
    Agent,
    /// An untrusted command, without a network
    Untrusted,
}
