#![doc = include_str!("../README.md")]

mod post;

pub use post::{LONGEST, PostError, is_private, post};
