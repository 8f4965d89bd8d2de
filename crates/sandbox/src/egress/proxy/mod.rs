//! The proxy container of a task: its image, its start, and the channel to it.

mod binary;
mod channel;
mod container;
mod image;
mod lines;
mod start;

pub(super) use binary::find_binary;
pub(super) use channel::ChannelHandle;
pub(super) use container::{Place, proxy_plan};
pub(super) use image::ensure_image;
pub(crate) use image::{PROGRAM, image_of};
pub(super) use start::start;
