//! The proxy container of a task: its image, its start, and the channel to it.

mod channel;
mod container;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
mod image;
mod lines;
mod start;
mod stderr;

pub(super) use channel::{Answer, Channel, ChannelHandle, Order};
pub(super) use container::{ProxyPlacement, proxy_plan};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzed::proxy_records;
pub(super) use image::ensure_image;
pub(crate) use image::{PROGRAM, image_of};
pub(super) use start::{configure, start};
