//! The environment of the steps of a sandboxed build: the network and the process namespace of a
//! container of the sandbox.
//!
//! The engine creates a container of its own for each step, which cannot be verified. But it can
//! join the namespaces of a verified one: an idle container on a network with nothing but a proxy,
//! or without a network. The end of that container is the end of every step: the kernel kills all
//! processes of a namespace whose first process ends. That process ends with its stdin, which this
//! process holds, so that a build does not continue when its owner is killed.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::container::{ContainerPlan, Created, Detachment, PlannedNetwork, Running, SetUp};
use crate::context::Shared;
use crate::egress::{self, PendingEgress, RunningProxy};
use crate::error::SandboxError;
use crate::labels::Role;
use crate::spec::{ContainerEnv, Isolation, Network, NetworkSandboxConfig, ObjectId};
use crate::task;
use sandbox_network_log::LogSink;
use sandbox_podman::BuildNetwork;

/// The container only waits: its program was measured at 3 MB.
const MEMORY: u64 = 64 << 20;
const PIDS: u32 = 64;
/// Without a network there is no name server: at this address lookups fail immediately.
const NO_SERVER: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The environment of the steps of one build.
#[derive(Debug)]
pub(super) struct Steps {
    holder: Running,
    proxy: Option<RunningProxy>,
    dns: Ipv4Addr,
    trust: Option<Trust>,
}

/// Makes the tools of a step trust the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trust {
    /// The folder on the host.
    pub(super) folder: PathBuf,
    pub(super) variables: BTreeMap<String, String>,
}

impl Steps {
    /// An environment without network, or with the network that `network` permits.
    pub(super) async fn open(
        shared: &Shared,
        network: Option<&NetworkSandboxConfig>,
        log: LogSink,
    ) -> Result<Self, SandboxError> {
        shared.begin();
        let id = ObjectId::random("build");
        let image = egress::proxy_image(shared.engine()?, shared.config()).await?;
        let Some(network) = network else {
            let holder = hold(shared, &id, &image, PlannedNetwork::default()).await?;
            return Ok(Self { holder: holder.start().await?, proxy: None, dns: NO_SERVER, trust: None });
        };
        let labels = shared.labels("");
        let egress = shared.egress().await?;
        let PendingEgress { endpoint, proxy, resources } =
            Box::pin(egress.open_for_build(&id, &labels, network, log)).await?;
        let holder = Box::pin(hold(shared, &id, &image, endpoint.network.clone()));
        let (holder, proxy) = task::both(holder, proxy, &resources, SetUp::remove).await?;
        let holder = match holder.start().await {
            Ok(holder) => holder,
            Err(error) => {
                task::log_leftover(proxy.close().await);
                return Err(error.into());
            }
        };
        Ok(Self {
            holder,
            proxy: Some(proxy),
            dns: endpoint.network.dns.unwrap_or(NO_SERVER),
            trust: endpoint
                .mounts
                .first()
                .map(|mount| Trust { folder: mount.host_path().to_owned(), variables: endpoint.env.clone() }),
        })
    }

    pub(super) fn network(&self) -> BuildNetwork {
        BuildNetwork::Joined { pid: self.holder.handle.pid(), dns: self.dns }
    }

    pub(super) fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    /// Ends running steps, and removes everything.
    pub(super) async fn close(self, shared: &Shared) -> Result<(), SandboxError> {
        self.holder.handle.remove().await?;
        task::close(self.proxy).await?;
        shared.settle();
        Ok(())
    }
}

async fn hold(
    shared: &Shared,
    id: &ObjectId,
    image: &str,
    network: PlannedNetwork,
) -> Result<SetUp, SandboxError> {
    let plan = plan(shared, id, image, network);
    Ok(Created::create(shared.engine()?, &plan).await?.set_up().await?)
}

/// A proxy that never gets its start document: it reads its stdin until that is closed.
fn plan(shared: &Shared, id: &ObjectId, image: &str, network: PlannedNetwork) -> ContainerPlan {
    ContainerPlan {
        name: shared.object_name("build", id),
        image: image.to_owned(),
        entrypoint: Some(vec![egress::PROXY_PROGRAM.to_owned()]),
        command: Vec::new(),
        env: ContainerEnv::default(),
        working_dir: None,
        mounts: Vec::new(),
        network,
        // The engine's own first process reaps the steps' orphans.
        isolation: Isolation { init: true, ..Isolation::proxy() },
        memory: Some(MEMORY),
        nano_cpus: None,
        pids: Some(PIDS),
        disk: None,
        labels: shared.labels("").with_role(Role::Build),
        stdin: true,
        terminal: None,
        detachment: Detachment::default(),
    }
}

/// The policy of a build's proxy; `None` for a build without a proxy.
pub(super) fn policy(network: &Network) -> Option<&NetworkSandboxConfig> {
    match network {
        Network::Sandboxed(config) => Some(config),
        Network::Disabled | Network::Unrestricted => None,
    }
}
