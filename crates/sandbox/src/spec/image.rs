//! Where an image comes from, and what it is called once it is there.

use std::collections::BTreeMap;
use std::fmt;

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// Built from a Dockerfile and the files of its context.
    Build {
        /// The Dockerfile.
        dockerfile: Vec<u8>,
        /// Files beside it: path relative to the context, and content.
        context_files: BTreeMap<String, Vec<u8>>,
    },
    /// An image that the engine already has, by name.
    Existing(String),
}

impl ImageSource {
    /// Built from a Dockerfile and the files of its context.
    #[must_use]
    pub fn build(dockerfile: impl Into<Vec<u8>>, context_files: BTreeMap<String, Vec<u8>>) -> Self {
        Self::Build {
            dockerfile: dockerfile.into(),
            context_files,
        }
    }

    /// An image that the engine already has.
    pub fn existing(name: impl Into<String>) -> Self {
        Self::Existing(name.into())
    }
}

/// The tag of an image that is ready for tasks; `Sandbox::ensure_image` gives it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageTag(String);

impl ImageTag {
    pub(crate) fn new(tag: impl Into<String>) -> Self {
        Self(tag.into())
    }

    /// The tag as the engine knows it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
