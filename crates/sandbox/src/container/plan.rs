//! The plan of a container, as pure data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use sandbox_packet_filter::{Condition, LOOPBACK, Rule};
use sandbox_podman::TerminalSize;

use crate::labels::Labels;
use crate::spec::{Capability, ContainerEnv, Isolation, Mount, Sharing};

/// All decisions about a container before the engine is called.
#[derive(Debug, Clone)]
pub(crate) struct ContainerPlan {
    pub(crate) name: String,
    /// A tag or an id of an image on the engine.
    pub(crate) image: String,
    /// `None`: the image's. An empty list: none.
    pub(crate) entrypoint: Option<Vec<String>>,
    /// Empty: the image's, if the entry point is the image's too.
    pub(crate) command: Vec<String>,
    pub(crate) env: ContainerEnv,
    /// `None`: the image's.
    pub(crate) working_dir: Option<String>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) network: PlannedNetwork,
    pub(crate) isolation: Isolation,
    /// Bytes, without swap.
    pub(crate) memory: Option<u64>,
    /// Billionths of a processor.
    pub(crate) nano_cpus: Option<i64>,
    /// Processes and threads.
    pub(crate) pids: Option<u32>,
    /// Bytes of the root file system.
    pub(crate) disk: Option<u64>,
    pub(crate) labels: Labels,
    /// Whether the process gets a stdin; without, it reads from `/dev/null`.
    pub(crate) stdin: bool,
    /// The initial size of its terminal. `None`: it has none.
    pub(crate) terminal: Option<TerminalSize>,
    /// Settings of a container that outlives this process; empty for containers with attached
    /// streams.
    pub(crate) detachment: Detachment,
}

/// Settings of a container that outlives this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Detachment {
    /// Bytes of output that the engine keeps in a file. `None`: it keeps nothing.
    pub(crate) log_limit: Option<u64>,
    /// Annotations for runtimes and hooks of the host.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The mounts that get an `SELinux` label, by their path in the container.
    pub(crate) sharing: BTreeMap<String, Sharing>,
}

impl Detachment {
    /// Whether the container outlives this process: its streams are not attached.
    pub(crate) fn is_detached(&self) -> bool {
        self.log_limit.is_some()
    }

    /// The engine's log driver, in addition to an attached client. A driver without a bound would
    /// fill the host's disk.
    pub(crate) fn log_driver(&self) -> &'static str {
        match self.log_limit {
            Some(_) => "k8s-file",
            None => "none",
        }
    }
}

impl ContainerPlan {
    /// The capabilities that its processes can ever have.
    pub(crate) fn capabilities(&self) -> BTreeSet<Capability> {
        // The latter is needed to drop both permanently.
        let to_confine = [Capability::NET_ADMIN, Capability::SETPCAP];
        let to_confine = to_confine.into_iter().filter(|_| self.network.confines_itself);
        self.isolation.capabilities.iter().copied().chain(to_confine).collect()
    }

    /// Bytes of memory and swap together.
    pub(crate) fn memory_with_swap(&self) -> Option<u64> {
        self.memory.map(|memory| memory.saturating_add(self.isolation.swap))
    }
}

/// The networks of a container. The engine is asked for them, and verified in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlannedNetwork {
    pub(crate) networks: Networks,
    /// The only name server. `None`: the engine's choice.
    pub(crate) dns: Option<Ipv4Addr>,
    pub(crate) sysctls: BTreeMap<String, String>,
    /// Whether its program starts with the capability to restrict itself to a part of them, which
    /// it then drops.
    pub(crate) confines_itself: bool,
}

impl PlannedNetwork {
    /// The outgoing packets of a container on the sandbox's networks that does not restrict itself:
    /// those to its name server, which is its proxy.
    pub(crate) fn filter(&self) -> Option<Vec<Rule>> {
        let Networks::Attached(_) = self.networks else { return None };
        let own = [Rule::accept([Condition::Through(LOOPBACK)]), Rule::drop([Condition::OtherFamily])];
        let to_proxy = self.dns.map(|proxy| Rule::accept([Condition::to_host(proxy)]));
        (!self.confines_itself).then(|| own.into_iter().chain(to_proxy).collect())
    }
}

/// The networks of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Networks {
    /// Loopback only.
    #[default]
    None,
    /// The engine's default network.
    Default,
    /// These networks and no other.
    Attached(Vec<Attachment>),
}

/// An attachment to a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) network: String,
    /// `None`: the engine picks one.
    pub(crate) address: Option<Ipv4Addr>,
}
