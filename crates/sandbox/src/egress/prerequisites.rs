//! Prerequisites of egress on the host, checked one by one for diagnostics.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::SandboxConfig;
use crate::program::{ProgramError, StaticProgram};

use super::authority::RootAuthority;
use super::{ProxyError, resolver};

/// The requirements of [`Sandbox::start`](crate::Sandbox::start) on the host, in addition to the
/// engine.
#[derive(Debug)]
#[non_exhaustive]
pub struct Prerequisites {
    /// The program that proxies run.
    pub proxy_program: Result<PathBuf, ProgramError>,
    /// The program that executors and verifications run inside of containers.
    pub inside_program: Result<PathBuf, ProgramError>,
    /// The root authority; created if missing.
    pub root_authority: Result<PathBuf, ProxyError>,
    /// The name server that proxies use.
    pub resolver: Result<SocketAddr, ProxyError>,
}

impl Prerequisites {
    /// Checks all of them, even if one fails. Blocks on the file system.
    #[must_use]
    pub fn look(config: &SandboxConfig) -> Self {
        let path = |program: StaticProgram| program.path().to_owned();
        Self {
            proxy_program: StaticProgram::proxy(config).map(path),
            inside_program: StaticProgram::inside(config).map(path),
            root_authority: RootAuthority::load_or_create(&config.state_dir)
                .map(|_| RootAuthority::path(&config.state_dir)),
            resolver: config.upstream.dns.map_or_else(resolver::host_resolver, Ok),
        }
    }
}
