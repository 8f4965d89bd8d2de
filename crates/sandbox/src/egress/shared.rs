//! Egress state that the tasks of one sandbox share: the root authority, the proxy's image, the
//! egress network.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use ipnet::IpNet;
use sandbox_proxy_protocol::{
    LONGEST_DOWN_MS, Limits, PROTOCOL_VERSION, Reach, ReplacementMap, StartConfig, Upstream,
};
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use crate::config::{SandboxConfig, UpstreamConfig};
use crate::container::{Handle, Running};
use crate::labels::Labels;
use crate::program::StaticProgram;
use crate::spec::{Asking, NetworkSandboxConfig, ObjectId};
use sandbox_files::FileLock;
use sandbox_network_log::LogSink;
use sandbox_podman::Engine;

use super::authority::RootAuthority;
use super::blocking::blocking;
use super::link::Link;
use super::proxy::{self, Channel, ChannelHandle, ProxyPlacement};
use super::relay::{GateAccess, HostPaths, Relay};
use super::spare::{Spare, Spares, Starting};
use super::trust::{TrustFiles, TrustStore};
use super::{
    EgressResources, PendingEgress, ProxyError, RunningProxy, network, questions, resolver, shared_cleanup,
};

/// Spares that are made at once: the engine creates one network at a time.
const MADE_AT_ONCE: usize = 4;
/// How long a proxy serves without a notification of its owner, which comes every two seconds.
const OWNER_TIMEOUT_MS: u64 = 15_000;

/// Creates egress for tasks, each with a network and a proxy of its own.
#[derive(Debug)]
pub(crate) struct Egress {
    inner: Arc<Inner>,
    /// Marks the egress network as used by this instance. Taken at the shutdown; locked for single
    /// operations only.
    in_use: Mutex<Option<FileLock>>,
    spares: Spares,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    root: RootAuthority,
    trust: TrustStore,
    image: String,
    upstream: Upstream,
    host: HostPaths,
    labels: Labels,
    /// The turns to make spares.
    turns: Arc<Semaphore>,
}

impl Egress {
    /// Creates the shared objects that are missing, with `labels`, which belong to no single task.
    pub(crate) async fn start(
        engine: &Engine,
        config: &SandboxConfig,
        labels: Labels,
    ) -> Result<Self, ProxyError> {
        let lock_path = shared_cleanup::lock_path(config);
        let files = blocking({
            let config = config.clone();
            move || Ok((RootAuthority::load_or_create(&config.state_dir)?, StaticProgram::proxy(&config)?))
        });
        let prepared = async {
            let (root, binary) = files.await?;
            let image = proxy::ensure_image(engine, config, binary).await?;
            Ok::<_, ProxyError>((root, image))
        };
        let network = async {
            // The lock first: from here on no other instance removes the network.
            let lock = FileLock::shared(&lock_path).await.map_err(ProxyError::file("lock", &lock_path))?;
            if engine.capabilities().has_stable_bridges() {
                network::ensure_egress(engine, &labels).await?;
            }
            Ok::<_, ProxyError>(lock)
        };
        // All run to completion even if another fails: an engine continues a request anyway.
        let (prepared, network, upstream) = tokio::join!(prepared, network, upstream(engine, config));
        let ((root, image), lock, upstream) = (prepared?, network?, upstream?);
        let trust = TrustStore::new(&shared_cleanup::trust_folder(config), &root);
        let host =
            HostPaths { state_dir: config.state_dir.clone(), engine: config.engine.socket().to_owned() };
        let turns = Arc::new(Semaphore::new(MADE_AT_ONCE));
        let inner = Inner { engine: engine.clone(), root, trust, image, upstream, host, labels, turns };
        Ok(Self { inner: Arc::new(inner), in_use: Mutex::new(Some(lock)), spares: Spares::default() })
    }

    /// The proxies that wait for a task.
    pub(crate) fn spares(&self) -> &Spares {
        &self.spares
    }

    /// Begins to make spares until `count` wait or are being made.
    pub(crate) fn warm(&self, count: usize) {
        self.spares.fill(count, || Arc::clone(&self.inner).make_spare());
    }

    /// Takes a spare, unless `config` needs more than a spare has.
    pub(crate) async fn take_spare(&self, config: &NetworkSandboxConfig) -> Option<Spare> {
        // The sockets of services are a mount of the proxy's container.
        if config.host_services().is_empty() { self.spares.take().await } else { None }
    }

    /// Creates the network of the execution `id` and returns how to attach to it; the proxy starts
    /// when its future is polled. A `spare` provides both; its proxy may still be starting.
    /// `image_id` is the image of the task, whose tools are made to trust the proxy.
    pub(crate) async fn open(
        &self,
        id: &ObjectId,
        labels: &Labels,
        config: &NetworkSandboxConfig,
        image_id: &str,
        log: LogSink,
        spare: Option<Spare>,
    ) -> Result<PendingEgress, ProxyError> {
        let trust = self.inner.trust.of_image(&self.inner.engine, image_id, labels);
        Box::pin(self.open_with(trust, id, labels, config, log, spare)).await
    }

    /// Like [`open`](Self::open), for the steps of an image build. The endpoint's only mount is the
    /// folder that its variables point into.
    pub(crate) async fn open_for_build(
        &self,
        id: &ObjectId,
        labels: &Labels,
        config: &NetworkSandboxConfig,
        log: LogSink,
    ) -> Result<PendingEgress, ProxyError> {
        self.open_with(self.inner.trust.of_builds(), id, labels, config, log, None).await
    }

    async fn open_with(
        &self,
        trust: impl Future<Output = Result<TrustFiles, ProxyError>>,
        id: &ObjectId,
        labels: &Labels,
        config: &NetworkSandboxConfig,
        log: LogSink,
        spare: Option<Spare>,
    ) -> Result<PendingEgress, ProxyError> {
        let (link, spare) = spare.map(|Spare { link, proxy }| (link, proxy)).unzip();
        let resources = match &link {
            Some(link) => link.resources().clone(),
            None => EgressResources::named(&self.inner.engine, labels.owner(), id),
        };
        let link = async {
            match link {
                Some(link) => Ok(link),
                None => Link::create(&resources, labels).await,
            }
        };
        let relay = Relay::start(&self.inner.host, config.host_services());
        // All run to completion even if another fails: an engine continues a request anyway.
        let (link, trust, relay) = match tokio::join!(link, trust, relay) {
            (Ok(link), Ok(trust), Ok(relay)) => (link, trust, relay),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                if let Some(starting) = spare {
                    let _ = starting.started().await;
                }
                discard(&resources).await;
                return Err(error);
            }
        };
        let mut endpoint = link.endpoint(&trust);
        if let Some(GateAccess { variable, git_setting }) = relay.as_ref().and_then(Relay::gate_access) {
            endpoint.env.extend([variable]);
            endpoint.git_settings.push(git_setting);
        }
        let start = Start {
            inner: Arc::clone(&self.inner),
            labels: labels.clone(),
            config: config.clone(),
            link,
            relay,
            log,
            spare,
        };
        Ok(PendingEgress { endpoint, proxy: start.run().boxed(), resources })
    }

    /// This instance no longer uses the egress network, which stays for the next one.
    pub(crate) fn release(&self) {
        drop(self.in_use.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Inner {
    /// Creates the network of a spare, and begins to start its proxy.
    async fn make_spare(self: Arc<Self>) -> Result<Spare, ProxyError> {
        // Nothing closes the semaphore.
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| ProxyError::ProxyGone)?;
        let resources = EgressResources::named(&self.engine, self.labels.owner(), &ObjectId::random("spare"));
        let link = match Link::create(&resources, &self.labels).await {
            Ok(link) => link,
            Err(error) => {
                discard(&resources).await;
                return Err(error);
            }
        };
        let of_task = link.clone();
        let start = async move {
            let started = self.start_proxy(&link, None, &self.labels).await;
            drop(turn);
            started
        };
        Ok(Spare { link: of_task, proxy: Starting::new(start) })
    }

    /// Starts a proxy at one end of `link`, which waits for its configuration.
    async fn start_proxy(
        &self,
        link: &Link,
        relay: Option<&Relay>,
        labels: &Labels,
    ) -> Result<Running, ProxyError> {
        let resources = link.resources();
        let placement = ProxyPlacement {
            name: resources.container.clone(),
            image: &self.image,
            networks: link.proxy_networks(),
            reach: Reach::of(link.listen().address, &self.upstream),
            mounts: relay.map(Relay::mount).into_iter().collect(),
        };
        let plan = proxy::proxy_plan(placement, labels);
        let started = proxy::start(&self.engine, &plan).await;
        let shared = resources.own_egress.is_none();
        if started.is_err() && shared && network::restore_egress(&self.engine, &self.labels).await? {
            resources.remove_container().await?;
            return proxy::start(&self.engine, &plan).await;
        }
        started
    }

    /// The start document of a proxy at one end of `link`.
    fn document(
        &self,
        link: &Link,
        relay: Option<&Relay>,
        config: &NetworkSandboxConfig,
        log: &LogSink,
    ) -> Result<StartConfig, ProxyError> {
        Ok(StartConfig {
            protocol: PROTOCOL_VERSION,
            policy: config.allowlist().clone(),
            replacements: ReplacementMap(config.secret_replacements().clone()),
            authority: self.root.intermediate(OffsetDateTime::now_utc())?,
            listen: link.listen(),
            upstream: self.upstream.clone(),
            services: relay.map(Relay::services).unwrap_or_default(),
            limits: Limits {
                owner_timeout_ms: Some(OWNER_TIMEOUT_MS),
                question_timeout_ms: config.asking().map(Asking::milliseconds),
                log_bytes: if log.is_bounded() { Limits::default().log_bytes } else { u64::MAX },
                ..Limits::default()
            },
        })
    }
}

/// The inputs of a proxy's start.
struct Start {
    inner: Arc<Inner>,
    labels: Labels,
    config: NetworkSandboxConfig,
    link: Link,
    relay: Option<Relay>,
    log: LogSink,
    /// The proxy of a spare.
    spare: Option<Starting>,
}

impl Start {
    async fn run(self) -> Result<RunningProxy, ProxyError> {
        let resources = self.link.resources().clone();
        let is_audited = self.config.is_audited();
        let (allowlist, asking) = (self.config.allowlist().clone(), self.config.asking().cloned());
        let served = async {
            let (channel, handle, relay) = self.serve().await?;
            let (proxy, asked) = RunningProxy::new(channel, handle, relay, resources.clone(), allowlist);
            if let Some(asking) = asking {
                tokio::spawn(questions::serve(asked, proxy.control(), asking).in_current_span());
            }
            if is_audited {
                proxy.control().shield_down(Duration::from_millis(LONGEST_DOWN_MS)).await?;
            }
            Ok(proxy)
        };
        match served.await {
            Ok(proxy) => Ok(proxy),
            Err(error) => {
                // The network is kept for now: the task's container may be on it. Objects that
                // cannot be removed here are found by their labels, and the cause of the failure
                // matters more than that of the removal.
                if let Err(removal) = resources.remove_container().await {
                    tracing::warn!(error = %removal, container = %resources.container, "failed to remove a proxy");
                }
                Err(error)
            }
        }
    }

    async fn serve(mut self) -> Result<(ChannelHandle, Handle, Option<Relay>), ProxyError> {
        let of_spare = match self.spare.take() {
            Some(proxy) => self.configure_spare(proxy).await?,
            None => None,
        };
        let (channel, handle) = if let Some(configured) = of_spare {
            configured
        } else {
            let waiting = self.inner.start_proxy(&self.link, self.relay.as_ref(), &self.labels).await?;
            self.configure(waiting).await?
        };
        Ok((channel.run(Some(self.log)), handle, self.relay))
    }

    /// Configures the proxy of a spare. `None` if it does not serve, for whatever reason: it is
    /// removed, and another must be started on the same network.
    async fn configure_spare(&self, proxy: Starting) -> Result<Option<(Channel, Handle)>, ProxyError> {
        let configured = async { self.configure(proxy.started().await?).await };
        match configured.await {
            Ok(configured) => Ok(Some(configured)),
            Err(error) => {
                tracing::warn!(%error, "a proxy that was started ahead does not serve; starting another");
                self.link.resources().remove_container().await?;
                Ok(None)
            }
        }
    }

    async fn configure(&self, waiting: Running) -> Result<(Channel, Handle), ProxyError> {
        let document = self.inner.document(&self.link, self.relay.as_ref(), &self.config, &self.log)?;
        let handle = waiting.handle.clone();
        let channel = proxy::configure(waiting, self.labels.context(), &document).await?;
        Ok((channel, handle))
    }
}

/// Removes the objects of a failed execution. A failed removal is only logged: the cause of the
/// failure matters more, and the labels identify leftover objects.
async fn discard(resources: &EgressResources) {
    if let Err(removal) = resources.remove().await {
        tracing::warn!(error = %removal, network = %resources.network, "not removed; the next sweep removes it");
    }
}

async fn upstream(engine: &Engine, config: &SandboxConfig) -> Result<Upstream, ProxyError> {
    let UpstreamConfig { dns, extra_roots_pem, allow_addresses } = config.upstream.clone();
    let dns = match dns {
        Some(dns) => dns,
        None => blocking(resolver::host_resolver).await?,
    };
    // A single address in the configuration is permitted on purpose.
    let mut host_addresses = engine.host_addresses().await;
    host_addresses.retain(|address| !allow_addresses.contains(&IpNet::from(IpAddr::V4(*address))));
    Ok(Upstream { dns, extra_roots_pem, allow_addresses, host_addresses })
}
