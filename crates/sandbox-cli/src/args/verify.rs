//! `verify`.

use clap::{Args, ValueEnum};
use sandbox::diagnostics::ExpectedProgram;

use super::{ImageArgs, Output};

#[derive(Debug, Args)]
#[command(after_help = "\
Containers of the project's image are started, and a program in them tries what must fail and what must work. Exit code 1 when a \
guarantee does not hold. One that cannot be checked does not hold.

Example: sandbox verify --isolation untrusted --expect bash")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Profile to verify
    #[arg(long, value_enum, default_value_t)]
    pub(crate) isolation: Preset,
    /// Require this program (bash, python) to be in the image and to work
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
