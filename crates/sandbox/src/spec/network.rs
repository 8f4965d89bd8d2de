//! What a task may reach.

use std::time::Duration;

use allowlist::Allowlist;
use sandbox_credentials::SecretReplacements;
use sandbox_gate::Repository;

use super::InvalidSpec;
use super::asking::{Answer, Asking, Question};
use super::service::{self, HostService};

/// How long a request waits for an answer.
const ASK_TIMEOUT: Duration = Duration::from_mins(1);

/// The network of a task.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Network {
    /// No network at all.
    #[default]
    Disabled,
    /// A network of its own, on which only the task's egress proxy can be reached.
    Sandboxed(NetworkSandboxConfig),
    /// The engine's default network: the task reaches whatever the host reaches, the host's own
    /// services included. For trusted code only.
    Unrestricted,
}

/// What the egress proxy of a task permits.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkSandboxConfig {
    allowlist: Allowlist,
    replacements: SecretReplacements,
    services: Vec<HostService>,
    gate: Option<HostService>,
    audited: bool,
    asking: Option<Asking>,
}

impl NetworkSandboxConfig {
    /// Permits what `allowlist` permits; an empty one permits nothing.
    #[must_use]
    pub fn new(allowlist: Allowlist) -> Self {
        Self {
            allowlist,
            replacements: SecretReplacements::default(),
            services: Vec::new(),
            gate: None,
            audited: false,
            asking: None,
        }
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
    /// When two have the same name, or the same port although one of them is not
    /// [`http`](HostService::http), or port 80 is not for HTTP.
    pub fn services(mut self, services: impl IntoIterator<Item = HostService>) -> Result<Self, InvalidSpec> {
        self.services = services.into_iter().collect();
        service::validate(&self.services)?;
        Ok(self)
    }

    /// Lets the task reach these repositories of the host as `http://gate/NAME.git`, where the
    /// allowlist permits it: the host is `gate`, and a `git` entry says which refs may be pushed.
    /// Default none.
    ///
    /// Each execution has a token of its own, which git in the task is given in variables
    /// (`GIT_CONFIG_*`). For other clients it is the password in the variable `SANDBOX_GATE_TOKEN`;
    /// any user name will do.
    #[must_use]
    pub fn gate(mut self, repositories: impl IntoIterator<Item = Repository>) -> Self {
        let repositories: Vec<_> = repositories.into_iter().collect();
        self.gate = (!repositories.is_empty()).then(|| HostService::gate(repositories));
        self
    }

    /// Lets the task reach any public host, to learn what it needs: its shield is down from the
    /// beginning, for 24 hours. All else stays: private addresses are out of reach, credentials
    /// keep their scopes, and of each request the network log says whether the policy allows it.
    #[must_use]
    pub fn audited(mut self) -> Self {
        self.audited = true;
        self
    }

    /// Holds each request that is refused for want of a rule, and for nothing else, until
    /// `callback` has answered. It is called with each such question and returns a
    /// [`Verdict`](crate::network::Verdict) or an [`Answer`]. `once` lets exactly this request
    /// pass, `always` adds [`Question::rule`] to the policy of the execution, `no` refuses it and
    /// all later ones for the same host and path. An answer that takes longer than
    /// [`ask_timeout`](Self::ask_timeout), or a panic, is a no. Default: nothing is asked.
    ///
    /// Equal requests share a question. At most 16 wait at once and 20 are asked a minute; further
    /// ones are refused, and so is a host about which five ended with no or without an answer.
    /// Never asked about: addresses in the place of names, names of a machine's metadata, pushes,
    /// what depends on the body, whatever no rule could allow, anything in a quarantine. No name is
    /// resolved before the answer. All other checks stay: an answer opens no private address, and
    /// secrets keep their scopes.
    ///
    /// The future is dropped when its question is over, for example because the client went away.
    ///
    /// ```
    /// use allowlist::Allowlist;
    /// use sandbox::NetworkSandboxConfig;
    /// use sandbox::network::{Question, Verdict};
    ///
    /// let network = NetworkSandboxConfig::new(Allowlist::default()).ask(async |question: Question| {
    ///     // A person would be asked here.
    ///     if question.method == "GET" { Verdict::Once } else { Verdict::No }
    /// });
    /// ```
    #[must_use]
    pub fn ask<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(Question) -> A + Send + Sync + 'static,
        A: Future<Output: Into<Answer>> + Send + 'static,
    {
        self.asking = Some(Asking::new(callback, ASK_TIMEOUT));
        self
    }

    /// How long a request waits for the answer of [`ask`](Self::ask), which comes first; in
    /// milliseconds, rounded down. Clients may give up sooner. Default 60 s.
    #[must_use]
    pub fn ask_timeout(mut self, time: Duration) -> Self {
        if let Some(asking) = &mut self.asking {
            asking.time = time;
        }
        self
    }

    /// Who is asked.
    pub(crate) fn asking(&self) -> Option<&Asking> {
        self.asking.as_ref()
    }

    /// Whether any public host can be reached.
    #[must_use]
    pub fn is_audited(&self) -> bool {
        self.audited
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
