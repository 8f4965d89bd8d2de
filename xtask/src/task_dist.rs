//! `dist`: creates and tests the archive and the packages for users.

use anyhow::Result;
use clap::Args;

use crate::archive::{self, Build};
use crate::reproducible;
use crate::task_proxy_image::PROGRAMS;

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
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
    /// Record the use of the package as the documents' pictures, in the folder `docs`.
    #[arg(long, conflicts_with = "test")]
    record: bool,
}

/// Prints the path of each file that it creates.
pub(crate) fn run(args: &DistArgs) -> Result<()> {
    if args.verify {
        reproducible::check(&PROGRAMS)?;
    }
    let build = if args.dev { Build::Dev } else { Build::Release };
    let made = if args.record {
        archive::recorded(build)?
    } else if args.test {
        archive::tested(build)?
    } else {
        archive::make(build)?
    };
    for file in [Some(made.archive), Some(made.deb), made.rpm].into_iter().flatten() {
        println!("{}", file.display());
    }
    Ok(())
}
