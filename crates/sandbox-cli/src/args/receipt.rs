//! `receipt …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ReceiptCommand {
    /// Print the public key by which the receipts of this host are verified
    Key,
    /// Verify the receipt of a result, and show the host's statement about the run
    ///
    /// Every file of the result must be unchanged. Compare the bundle with the digest that `sandbox
    /// bundle` printed. The last line is a trailer for `git commit --trailer`.
    Verify(VerifyReceiptArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VerifyReceiptArgs {
    /// Result of `sandbox run --bundle`
    #[arg(value_name = "DIR")]
    pub(crate) result: PathBuf,
    /// Accept the receipts of the host with this public key, as `sandbox receipt key` prints it
    /// (repeatable) [default: the key of this host]
    #[arg(long = "key", value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
