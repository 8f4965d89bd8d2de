//! `dist`: creates and tests the archive and the packages for users.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::archive::{self, Build};
use crate::reproducible;
use crate::task_proxy_image::PROGRAMS;

#[derive(Args)]
pub(crate) struct DistArgs {
    /// Build the static programs a second time, in another folder, and fail if they differ.
    #[arg(long)]
    verify: bool,
    /// Pack the programs that tests use, which are built faster.
    #[arg(long, conflicts_with = "verify")]
    dev: bool,
    /// Test the packages and the archive as root and as an ordinary user, and run the commands in
    /// the documents.
    #[arg(long)]
    test: bool,
    /// Record the first use of the package as the README's picture, at this path in the checkout.
    #[arg(long, value_name = "SVG", conflicts_with = "test")]
    record: Option<PathBuf>,
}

/// Prints the path of each file that it creates.
pub(crate) fn run(args: &DistArgs) -> Result<()> {
    if args.verify {
        reproducible::check(&PROGRAMS)?;
    }
    let build = if args.dev { Build::Dev } else { Build::Release };
    let made = match &args.record {
        Some(picture) => archive::recorded(build, picture)?,
        None if args.test => archive::tested(build)?,
        None => archive::make(build)?,
    };
    for file in [Some(made.archive), Some(made.deb), made.rpm].into_iter().flatten() {
        println!("{}", file.display());
    }
    Ok(())
}
