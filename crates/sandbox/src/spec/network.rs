//! What a task may reach.

use allowlist::Allowlist;
use sandbox_credentials::SecretReplacements;
use sandbox_gate::Repository;

use super::InvalidSpec;
use super::service::{self, HostService};

/// The network of a task.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Network {
    /// No network at all.
    #[default]
    Disabled,
    /// A network of its own, on which only the task's egress proxy can be reached.
    Sandboxed(NetworkSandboxConfig),
    /// The engine's default network: the task reaches whatever the host reaches, the host's own services included. For trusted
    /// code only.
    Unrestricted,
}

/// What the egress proxy of a task permits.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkSandboxConfig {
    allowlist: Allowlist,
    replacements: SecretReplacements,
    services: Vec<HostService>,
    gate: Option<HostService>,
}

impl NetworkSandboxConfig {
    /// Permits what `allowlist` permits; an empty one permits nothing.
    #[must_use]
    pub fn new(allowlist: Allowlist) -> Self {
        Self { allowlist, replacements: SecretReplacements::default(), services: Vec::new(), gate: None }
    }

    /// What the proxy puts in the place of the surrogates in the container's environment: see
    /// [`prepare_secrets`](crate::credentials::prepare_secrets). Default nothing.
    #[must_use]
    pub fn replacements(mut self, replacements: SecretReplacements) -> Self {
        self.replacements = replacements;
        self
    }

    /// Lets the task reach these services of the host. Default none.
    ///
    /// # Errors
    ///
    /// When two have the same name, or the same port although one of them is not [`http`](HostService::http), or port 80 is not for HTTP.
    pub fn services(mut self, services: impl IntoIterator<Item = HostService>) -> Result<Self, InvalidSpec> {
        self.services = services.into_iter().collect();
        service::validate(&self.services)?;
        Ok(self)
    }

    /// Lets the task reach these repositories of the host as `http://gate/NAME.git`, where the allowlist permits it: the host is `gate`, and a
    /// `git` entry says which refs may be pushed. Default none.
    ///
    /// Each execution has a token of its own, which git in the task is given in variables (`GIT_CONFIG_*`). For other clients it is the
    /// password in the variable `SANDBOX_GATE_TOKEN`; any user name will do.
    #[must_use]
    pub fn gate(mut self, repositories: impl IntoIterator<Item = Repository>) -> Self {
        let repositories: Vec<_> = repositories.into_iter().collect();
        self.gate = (!repositories.is_empty()).then(|| HostService::gate(repositories));
        self
    }

    /// The policy.
    #[must_use]
    pub fn allowlist(&self) -> &Allowlist {
        &self.allowlist
    }

    /// What of the host the task reaches.
    pub(crate) fn host_services(&self) -> Vec<HostService> {
        self.services.iter().chain(&self.gate).cloned().collect()
    }

    /// What takes the place of surrogates.
    pub(crate) fn secret_replacements(&self) -> &SecretReplacements {
        &self.replacements
    }
}
