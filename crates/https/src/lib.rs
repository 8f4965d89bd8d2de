#![doc = include_str!("../README.md")]

mod post;

pub use post::{PostError, is_confidential, post};
