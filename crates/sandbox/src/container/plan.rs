//! What is to be created, as pure data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use sandbox_packet_filter::{Condition, LOOPBACK, Rule};
use sandbox_podman::TerminalSize;

use crate::labels::Labels;
use crate::spec::{Capability, ContainerEnv, Isolation, Mount, Sharing};

/// Everything about a container that is decided before the engine is asked.
#[derive(Debug, Clone)]
pub(crate) struct ContainerPlan {
    pub(crate) name: String,
    /// A tag or an id of an image that the engine has.
    pub(crate) image: String,
    /// `None`: the image's. An empty list: none.
    pub(crate) entrypoint: Option<Vec<String>>,
    /// Empty: the image's, where the entry point is the image's too.
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
    /// The size that its terminal has at first; `None`: it has none.
    pub(crate) terminal: Option<TerminalSize>,
    /// What it has because it goes on without us; nothing for containers whose output we hold.
    pub(crate) detachment: Detachment,
}

/// What a container has that goes on without us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Detachment {
    /// Bytes of output that the engine keeps in a file. `None`: it keeps nothing.
    pub(crate) log_limit: Option<u64>,
    /// For runtimes and hooks of the host.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The mounts that get a label of `SELinux`, by their place in the container.
    pub(crate) sharing: BTreeMap<String, Sharing>,
}

impl Detachment {
    /// Whether the container goes on without us: nobody holds its streams.
    pub(crate) fn is_detached(&self) -> bool {
        self.log_limit.is_some()
    }

    /// What the engine does with output besides handing it to an attached client. A driver without
    /// a bound would fill the host's disk.
    pub(crate) fn log_driver(&self) -> &'static str {
        match self.log_limit {
            Some(_) => "k8s-file",
            None => "none",
        }
    }
}

impl ContainerPlan {
    /// What its processes may ever do beyond other processes.
    pub(crate) fn capabilities(&self) -> BTreeSet<Capability> {
        // The latter is what it takes to give both up for good.
        let to_confine = [Capability::NET_ADMIN, Capability::SETPCAP];
        let to_confine = to_confine.into_iter().filter(|_| self.network.confines_itself);
        self.isolation.capabilities.iter().copied().chain(to_confine).collect()
    }

    /// Bytes of memory and swap together.
    pub(crate) fn memory_with_swap(&self) -> Option<u64> {
        self.memory.map(|memory| memory.saturating_add(self.isolation.swap))
    }
}

/// What a container has of networks. The engine is asked for it, and the kernel must show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlannedNetwork {
    pub(crate) networks: Networks,
    /// The only name server. `None`: the engine's choice.
    pub(crate) dns: Option<Ipv4Addr>,
    pub(crate) sysctls: BTreeMap<String, String>,
    /// Whether its program begins with the right to confine itself to a part of them, which it then
    /// gives up.
    pub(crate) confines_itself: bool,
}

impl PlannedNetwork {
    /// What may leave a container that has networks of ours and does not confine itself: what goes
    /// to its name server, which is its proxy.
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

/// A place on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) network: String,
    /// `None`: the engine picks one.
    pub(crate) address: Option<Ipv4Addr>,
}
