//! The specification of a verification.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::spec::{ByteSize, ContainerEnv, ImageTag, InvalidSpec, Isolation, Mount, Network, ResourceLimits};

/// A program that the image is expected to have.
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
                format!(
                    "`{}` is not a program that can be expected; expected one of bash, python",
                    other.escape_debug()
                ),
            )),
        }
    }
}

/// The specification of a verification: an image, and the confinement of its containers.
///
/// At most 512 MiB of memory and 512 processes are used: whether the engine enforces a limit does
/// not depend on its size.
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
    /// Verifies that containers of `image` are confined by `isolation` and `limits`.
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

    /// Creates the containers with these settings instead, but still expects the specified
    /// guarantees: shows that the verification can fail.
    #[must_use]
    pub fn made_with(mut self, isolation: Isolation, limits: ResourceLimits) -> Self {
        self.made = (isolation, limits);
        self
    }

    /// The network. Default: none. On every network, only the proxy is expected to be
    /// reachable.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// The variables of the containers. Default: none.
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

    /// Expects that `program` is in the image and works. Default: none.
    #[must_use]
    pub fn program(mut self, program: ExpectedProgram) -> Self {
        self.programs.insert(program);
        self
    }
}
