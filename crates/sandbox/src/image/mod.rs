//! Images for tasks, in two layers: the image of the caller's Dockerfile, and an overlay with the
//! generated entry point.
//!
//! Both are cached with a tag derived from their content. A lower layer that is too old is rebuilt
//! without the engine's cache, and an overlay is always built on the current lower layer. Builds of
//! one tag are serialized, also across processes; different tags are built concurrently.
//!
//! The steps of a build reach nothing, or the hosts that an allowlist permits (`steps`). The engine
//! does the rest of a build, on its host's network: it pulls base images, whose authors are
//! trusted; everything else that it would do there is refused (`dockerfile`).

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
