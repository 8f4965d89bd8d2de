//! What a way out needs of the host, looked at one by one; for people who look for a fault.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::SandboxConfig;

use super::authority::RootAuthority;
use super::proxy::find_binary;
use super::{ProxyError, resolver};

/// What [`Sandbox::startup`](crate::Sandbox::startup) needs of the host, beside the engine.
#[derive(Debug)]
#[non_exhaustive]
pub struct Prerequisites {
    /// The program that proxies run.
    pub proxy_binary: Result<PathBuf, ProxyError>,
    /// The root authority; made now where there is none.
    pub root_authority: Result<PathBuf, ProxyError>,
    /// The name server that proxies ask.
    pub resolver: Result<SocketAddr, ProxyError>,
}

impl Prerequisites {
    /// Looks at all of them, whatever is wrong with one. Blocks on the file system.
    #[must_use]
    pub fn look(config: &SandboxConfig) -> Self {
        Self {
            proxy_binary: find_binary(config.proxy_dir.as_deref(), &config.state_dir)
                .map(|binary| binary.path().to_owned()),
            root_authority: RootAuthority::load_or_create(&config.state_dir)
                .map(|_| RootAuthority::path(&config.state_dir)),
            resolver: config.upstream.dns.map_or_else(resolver::host_resolver, Ok),
        }
    }
}
