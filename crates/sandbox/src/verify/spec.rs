//! What is to be verified.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::spec::{ByteSize, ContainerEnv, ImageTag, InvalidSpec, Isolation, Mount, Network, ResourceLimits};

/// A program that the image is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ExpectedProgram {
    /// bash.
    Bash,
    /// Python 3.
    Python,
}

impl FromStr for ExpectedProgram {
    type Err = InvalidSpec;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "bash" => Ok(Self::Bash),
            "python" | "python3" => Ok(Self::Python),
            other => Err(InvalidSpec::new(
                "expect",
                format!("`{}` is neither bash nor python", other.escape_debug()),
            )),
        }
    }
}

/// What is to be verified: an image, and how its containers are to be confined.
///
/// Of more than 512 MiB of memory or 512 processes only so much is tried: whether the engine
/// enforces a limit does not depend on it.
#[derive(Debug, Clone)]
pub struct VerifySpec {
    pub(super) image: ImageTag,
    pub(super) guaranteed: (Isolation, ResourceLimits),
    pub(super) made: (Isolation, ResourceLimits),
    pub(super) network: Network,
    pub(super) env: ContainerEnv,
    pub(super) mounts: Vec<Mount>,
    pub(super) programs: BTreeSet<ExpectedProgram>,
}

impl VerifySpec {
    /// Verifies that containers of `image` are confined as `isolation` and `limits` say.
    #[must_use]
    pub fn new(image: ImageTag, isolation: Isolation, limits: ResourceLimits) -> Self {
        let limits = limits
            .memory(limits.memory.map(|size| size.min(ByteSize::mib(512))))
            .pids(limits.pids.map(|number| number.min(512)));
        Self {
            image,
            made: (isolation.clone(), limits),
            guaranteed: (isolation, limits),
            network: Network::default(),
            env: ContainerEnv::default(),
            mounts: Vec::new(),
            programs: BTreeSet::new(),
        }
    }

    /// Makes the containers with these instead, and still expects what is guaranteed: shows that
    /// the verification can fail.
    #[must_use]
    pub fn made_with(mut self, isolation: Isolation, limits: ResourceLimits) -> Self {
        self.made = (isolation, limits);
        self
    }

    /// The network. Default none. That nothing but the proxy can be reached is expected of each.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// The variables of the containers. Default none.
    #[must_use]
    pub fn env(mut self, env: ContainerEnv) -> Self {
        self.env = env;
        self
    }

    /// Adds a mount. One that is [protected](Mount::protected) and writable, or
    /// [copy-on-write](Mount::copy_on_write), is refused.
    #[must_use]
    pub fn mount(mut self, mount: Mount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Expects that `program` is in the image and works. Default: nothing is expected of the image.
    #[must_use]
    pub fn program(mut self, program: ExpectedProgram) -> Self {
        self.programs.insert(program);
        self
    }
}
