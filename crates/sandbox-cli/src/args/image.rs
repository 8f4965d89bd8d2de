//! `image …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{ImageArgs, Output};
use crate::config::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Build the project's image unless it exists, and print its tag
    Build(BuildArgs),
    /// Print the tags of the project's image without building it, as a key for caches
    Hash(HashArgs),
    /// List the images that were built here
    List(ListArgs),
    /// Save the project's image to DIR/images.tar
    Save(SaveArgs),
    /// Load an image that `image save` wrote
    Load(LoadArgs),
    /// Remove old and replaced images
    Prune(PruneArgs),
}

impl ImageCommand {
    /// The image flags of the subcommand, if it has any.
    pub(crate) fn image(&self) -> Option<&ImageArgs> {
        match self {
            Self::Build(args) => Some(&args.image),
            Self::Hash(args) => Some(&args.image),
            Self::Save(args) => Some(&args.image),
            Self::List(_) | Self::Load(_) | Self::Prune(_) => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HashArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct SaveArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Folder to write to
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Folder to read from
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Maximum age of an image
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    pub(crate) max_image_age: Duration,
}
