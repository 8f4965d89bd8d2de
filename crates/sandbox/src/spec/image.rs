//! The source of an image, and its tag.

use std::collections::BTreeMap;
use std::fmt;

use super::Network;

/// The source of an image.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageSource {
    /// Built from a Dockerfile and the files of its context.
    Build {
        /// The Dockerfile.
        dockerfile: Vec<u8>,
        /// Files next to the Dockerfile: path relative to the context, and content.
        context_files: BTreeMap<String, Vec<u8>>,
        /// The network of the `RUN` steps.
        network: Network,
    },
    /// An image that the engine already has, by name.
    Existing(String),
}

impl ImageSource {
    /// Built from a Dockerfile and the files of its context, by steps without a network.
    #[must_use]
    pub fn build(dockerfile: impl Into<Vec<u8>>, context_files: BTreeMap<String, Vec<u8>>) -> Self {
        Self::Build { dockerfile: dockerfile.into(), context_files, network: Network::Disabled }
    }

    /// The network of the `RUN` steps of a build: nothing ([`Network::Disabled`], the default),
    /// hosts that an allowlist permits, through a proxy of their own ([`Network::Sandboxed`]), or
    /// everything that the engine's host reaches, including its loopback
    /// ([`Network::Unrestricted`]). The engine itself pulls base images in every case.
    ///
    /// Unless the network is unrestricted, instructions that make the engine itself download
    /// something, or that leave the sandbox, are errors: `ADD` of a URL, flags of `RUN`, `ONBUILD`,
    /// here-documents. The network of an existing image is ignored.
    #[must_use]
    pub fn with_network(mut self, network: Network) -> Self {
        if let Self::Build { network: of_build, .. } = &mut self {
            *of_build = network;
        }
        self
    }

    /// An image that the engine already has.
    pub fn existing(name: impl Into<String>) -> Self {
        Self::Existing(name.into())
    }
}

/// The tag of an image that is ready for tasks, from `Sandbox::ensure_image`.
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
