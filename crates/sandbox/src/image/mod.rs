//! Images for tasks, in two layers: what the caller's Dockerfile makes, and an overlay with the
//! generated entry point.
//!
//! Both are cached under a tag made from their content. A lower layer that is too old is built
//! again without the engine's cache, and an overlay is always built on the current lower layer. One
//! tag is built once at a time, also over several processes; different tags are built side by side.
//!
//! The steps of a build reach nothing, or what an allowlist permits (`steps`). The rest of a build
//! is done by the engine, on its host's network: it pulls base images, whose authors are trusted,
//! and what else it would do there is refused (`dockerfile`).

mod archive;
mod build_context;
mod dockerfile;
mod ensure;
mod entrypoint;
mod hash;
mod overlay;
mod request;
mod steps;

pub(crate) use archive::{load, save};
pub(crate) use ensure::ensure;
pub use hash::ImageTags;
pub(crate) use hash::tags;
pub use request::ImageRequest;

pub use crate::error::{BuildReach, ImageBuildError};
pub use crate::image_store::{ImageKind, ImageSummary};
