//! What the tasks of one sandbox share: the root authority, the proxy's image, the network to the world.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use sandbox_proxy_protocol::{Limits, Listen, PROTOCOL_VERSION, ReplacementMap, StartConfig, Upstream};
use time::OffsetDateTime;

use crate::config::SandboxConfig;
use crate::container::{Attachment, Networks, PlannedNetwork};
use crate::network_log::LogSink;
use crate::program::StaticProgram;
use crate::reap::Labels;
use crate::spec::{NetworkSandboxConfig, ObjectId};
use sandbox_files::FileLock;
use sandbox_podman::Engine;

use super::authority::RootAuthority;
use super::blocking::blocking;
use super::proxy::{self, Place};
use super::trust::{self, TrustFiles, TrustStore};
use super::{Endpoint, Opening, ProxyError, Remains, RunningProxy, leftovers, network, resolver};

/// Closes the hole that an IPv6 link-local address of the host's bridge would be.
const TASK_SYSCTLS: [(&str, &str); 2] = [
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
];

/// How long a proxy serves without a sign of its owner, which gives one every other second.
const OWNER_TIMEOUT_MS: u64 = 15_000;

/// Opens ways out for tasks, each with a network and a proxy of its own.
#[derive(Debug)]
pub(crate) struct Egress {
    inner: Arc<Inner>,
    lock_path: PathBuf,
    /// Says that this instance uses the network to the world. Taken at the shutdown; locked for single operations only.
    in_use: Mutex<Option<FileLock>>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    root: RootAuthority,
    trust: TrustStore,
    image: String,
    upstream: Upstream,
    labels: Labels,
}

impl Egress {
    /// Makes what is shared, unless it is there. `labels` are those of what belongs to no single task.
    pub(crate) async fn start(
        engine: &Engine,
        config: &SandboxConfig,
        labels: Labels,
    ) -> Result<Self, ProxyError> {
        let lock_path = leftovers::lock_path(config);
        let files = blocking({
            let config = config.clone();
            move || {
                Ok((
                    RootAuthority::load_or_create(&config.state_dir)?,
                    StaticProgram::proxy(&config)?,
                ))
            }
        });
        let prepared = async {
            let (root, binary) = files.await?;
            let image = proxy::ensure_image(engine, config, &binary).await?;
            Ok::<_, ProxyError>((root, image))
        };
        let network = async {
            // The lock first: from here on no other instance removes the network.
            let lock = FileLock::shared(&lock_path)
                .await
                .map_err(ProxyError::file("lock", &lock_path))?;
            if engine.capabilities().has_stable_bridges() {
                network::ensure_egress(engine, &labels).await?;
            }
            Ok::<_, ProxyError>(lock)
        };
        // None is dropped half done when another fails: an engine goes on with what it was told.
        let (prepared, network, upstream) = tokio::join!(prepared, network, upstream(config));
        let all = async { Ok::<_, ProxyError>((prepared?, network?, upstream?)) };
        let ((root, image), lock, upstream) = match all.await {
            Ok(all) => all,
            Err(error) => {
                if let Err(left) = leftovers::remove_unused_network(engine, config, &labels).await {
                    tracing::warn!(error = %left, "the egress network is left behind; a sweep removes it");
                }
                return Err(error);
            }
        };
        let trust = TrustStore::new(&leftovers::trust_folder(config), &root);
        let inner = Inner {
            engine: engine.clone(),
            root,
            trust,
            image,
            upstream,
            labels,
        };
        Ok(Self {
            inner: Arc::new(inner),
            lock_path,
            in_use: Mutex::new(Some(lock)),
        })
    }

    /// Makes the network of the execution `id` and says how to attach to it; the proxy starts when the opening is polled.
    /// `image_id` is the image of the task, whose tools are made to trust the proxy.
    pub(crate) async fn open(
        &self,
        id: &ObjectId,
        labels: &Labels,
        config: &NetworkSandboxConfig,
        image_id: &str,
        log: LogSink,
    ) -> Result<Opening, ProxyError> {
        let trust = self.inner.trust.of_image(&self.inner.engine, image_id, labels);
        Box::pin(self.open_with(trust, id, labels, config, log)).await
    }

    /// Likewise, for the steps of an image build. The endpoint's one mount is the folder that its variables lead to.
    pub(crate) async fn open_for_build(
        &self,
        id: &ObjectId,
        labels: &Labels,
        config: &NetworkSandboxConfig,
        log: LogSink,
    ) -> Result<Opening, ProxyError> {
        self.open_with(self.inner.trust.of_builds(), id, labels, config, log)
            .await
    }

    async fn open_with(
        &self,
        trust: impl Future<Output = Result<TrustFiles, ProxyError>>,
        id: &ObjectId,
        labels: &Labels,
        config: &NetworkSandboxConfig,
        log: LogSink,
    ) -> Result<Opening, ProxyError> {
        let inner = &self.inner;
        let prefix = labels.owner();
        let remains = Remains {
            engine: inner.engine.clone(),
            container: format!("{prefix}-proxy-{id}"),
            network: format!("{prefix}-conv-{id}"),
            own_egress: (!inner.engine.capabilities().has_stable_bridges())
                .then(|| format!("{}-{id}", network::egress_name(prefix))),
        };
        let subnet = network::create_task_network(&inner.engine, remains.network.clone(), labels);
        let egress = network::create_own_egress(&inner.engine, remains.own_egress.as_deref(), labels);
        let (subnet, trust) = match tokio::join!(subnet, egress, trust) {
            (Ok(subnet), Ok(()), Ok(trust)) => (subnet, trust),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                // Why it failed is worth more than that something is left, which is found by its labels.
                if let Err(removal) = remains.remove().await {
                    tracing::warn!(error = %removal, network = %remains.network, "left behind; a sweep removes it");
                }
                return Err(error);
            }
        };
        let endpoint = endpoint(remains.network.clone(), subnet.task(), subnet.proxy(), &trust);
        let start = Start {
            inner: Arc::clone(inner),
            labels: labels.clone(),
            config: config.clone(),
            address: subnet.proxy(),
            remains: remains.clone(),
            log,
        };
        Ok(Opening {
            endpoint,
            proxy: start.run().boxed(),
            remains,
        })
    }

    /// Removes the network to the world unless another instance uses it. May be called more than once.
    pub(crate) async fn shutdown(&self) -> Result<(), ProxyError> {
        // Our own use ends here.
        drop(self.in_use.lock().unwrap_or_else(PoisonError::into_inner).take());
        let alone =
            FileLock::try_exclusive(&self.lock_path).map_err(ProxyError::file("lock", &self.lock_path))?;
        if alone.is_some() {
            network::remove_egress(&self.inner.engine, &self.inner.labels).await?;
        }
        Ok(())
    }
}

/// All that a proxy is started with.
struct Start {
    inner: Arc<Inner>,
    labels: Labels,
    config: NetworkSandboxConfig,
    address: Ipv4Addr,
    remains: Remains,
    log: LogSink,
}

impl Start {
    async fn run(self) -> Result<RunningProxy, ProxyError> {
        let Self {
            inner,
            labels,
            config,
            address,
            remains,
            log,
        } = self;
        let document = StartConfig {
            protocol: PROTOCOL_VERSION,
            policy: config.allowlist().clone(),
            replacements: ReplacementMap(config.secret_replacements().clone()),
            authority: inner.root.intermediate(OffsetDateTime::now_utc())?,
            listen: Listen::new(address),
            upstream: inner.upstream.clone(),
            limits: Limits {
                owner_timeout_ms: Some(OWNER_TIMEOUT_MS),
                log_bytes: if log.is_bounded() {
                    Limits::default().log_bytes
                } else {
                    u64::MAX
                },
                ..Limits::default()
            },
        };
        let shared_egress = network::egress_name(labels.owner());
        let place = Place {
            name: remains.container.clone(),
            image: &inner.image,
            egress_network: remains.own_egress.as_deref().unwrap_or(&shared_egress),
            task_network: &remains.network,
            address,
        };
        let plan = proxy::proxy_plan(place, &labels);
        let mut started = proxy::start(&inner.engine, &plan, &document).await;
        let shared = remains.own_egress.is_none();
        if started.is_err() && shared && network::restore_egress(&inner.engine, &inner.labels).await? {
            remains.remove_container().await?;
            started = proxy::start(&inner.engine, &plan, &document).await;
        }
        match started {
            Ok(channel) => Ok(RunningProxy::new(channel.run(Some(log)), remains)),
            Err(error) => {
                // The network stays for now: the task's container may be on it. What cannot be removed here is found by its
                // labels, and the reason for the failure is worth more than that of the removal.
                if let Err(removal) = remains.remove_container().await {
                    tracing::warn!(error = %removal, container = %remains.container, "a proxy could not be removed");
                }
                Err(error)
            }
        }
    }
}

async fn upstream(config: &SandboxConfig) -> Result<Upstream, ProxyError> {
    let dns = match config.upstream.dns {
        Some(dns) => dns,
        None => blocking(resolver::host_resolver).await?,
    };
    Ok(Upstream {
        dns,
        extra_roots_pem: config.upstream.extra_roots_pem.clone(),
        allow_addresses: config.upstream.allow_addresses.clone(),
    })
}

fn endpoint(network: String, address: Ipv4Addr, dns: Ipv4Addr, trust: &TrustFiles) -> Endpoint {
    let attachment = Attachment {
        network,
        address: Some(address),
    };
    Endpoint {
        network: PlannedNetwork {
            networks: Networks::Attached(vec![attachment]),
            dns: Some(dns),
            sysctls: TASK_SYSCTLS
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        },
        resolver: Some(format!("nameserver {dns}\n")),
        mounts: trust.mounts(),
        env: trust::variables(trust),
    }
}
