//! The network of a task.

use std::time::Duration;

use allowlist::Allowlist;
use sandbox_credentials::SecretReplacements;
use sandbox_gate::Repository;

use super::InvalidSpec;
use super::asking::{Answer, Asking, Question};
use super::service::{self, HostService};

/// How long a request waits for an answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(30);

/// The network of a task.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Network {
    /// No network at all.
    #[default]
    Disabled,
    /// A network of its own, on which only the task's egress proxy can be reached.
    Sandboxed(NetworkSandboxConfig),
    /// The engine's default network: the task reaches everything that the host reaches, including
    /// the host's own services. For trusted code only.
    Unrestricted,
}

/// The configuration of a task's egress proxy.
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

    /// The values that the proxy substitutes for the surrogates in the container's environment: see
    /// [`prepare_secrets`](crate::credentials::prepare_secrets). Default: none.
    #[must_use]
    pub fn replacements(mut self, replacements: SecretReplacements) -> Self {
        self.replacements = replacements;
        self
    }

    /// Lets the task reach these services of the host. Default: none.
    ///
    /// # Errors
    ///
    /// When two have the same name, when two have the same port and one of them is not
    /// [`http`](HostService::http), or when one at port 80 is not for HTTP.
    pub fn services(mut self, services: impl IntoIterator<Item = HostService>) -> Result<Self, InvalidSpec> {
        self.services = services.into_iter().collect();
        service::validate(&self.services)?;
        Ok(self)
    }

    /// Lets the task reach these repositories of the host as `http://gate/NAME.git`, as far as the
    /// allowlist permits: the host is `gate`, and a `git` entry lists the refs that may be pushed.
    /// Default: none.
    ///
    /// Each execution has a token of its own, which git in the task gets in variables
    /// (`GIT_CONFIG_*`). Other clients use it as the password, from the variable
    /// `SANDBOX_GATE_TOKEN`, with any user name.
    #[must_use]
    pub fn gate(mut self, repositories: impl IntoIterator<Item = Repository>) -> Self {
        let repositories: Vec<_> = repositories.into_iter().collect();
        self.gate = (!repositories.is_empty()).then(|| HostService::gate(repositories));
        self
    }

    /// Lets the task reach any public host, to find out what it needs: its shield is down from the
    /// start, for 24 hours. All other checks stay in force: private addresses are unreachable,
    /// credentials keep their scopes, and the network log records of each request whether the
    /// policy allows it.
    #[must_use]
    pub fn audited(mut self) -> Self {
        self.audited = true;
        self
    }

    /// Holds each request that is refused only because no rule permits it, until `callback`
    /// answers. The callback gets the question and returns a [`Verdict`](crate::network::Verdict)
    /// or an [`Answer`]. `Once` permits exactly this request, `Run` and `Always` add
    /// [`Question::rule`] to the policy of the execution, `No` refuses it and all later ones for
    /// the same host and path. An answer that takes longer than [`ask_timeout`](Self::ask_timeout),
    /// or a panic, counts as `No`. Default: no callback.
    ///
    /// Equal requests share a question. At most 16 wait at once and 20 are asked per minute;
    /// further ones are refused, and so are requests to a host after five questions about it ended
    /// with `no` or without an answer. Never asked about: addresses in place of names, names of
    /// cloud metadata services, pushes, decisions that depend on the body, requests that no rule
    /// could allow, and everything in a quarantine. No name is resolved before the answer. All
    /// other checks stay in force: an answer opens no private address, and secrets keep their
    /// scopes.
    ///
    /// The future is dropped when its question has become moot, for example because the client
    /// disconnected.
    ///
    /// ```
    /// use allowlist::Allowlist;
    /// use sandbox::NetworkSandboxConfig;
    /// use sandbox::network::{Question, Verdict};
    ///
    /// let network = NetworkSandboxConfig::new(Allowlist::default()).ask(async |question: Question| {
    ///     // A real callback would ask a person here.
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

    /// How long a request waits for [`ask`](Self::ask), in milliseconds, rounded down. Clients may
    /// give up sooner. Default: 30 s.
    #[must_use]
    pub fn ask_timeout(mut self, time: Duration) -> Self {
        if let Some(asking) = &mut self.asking {
            asking.time = time;
        }
        self
    }

    /// The callback, and how long a request waits.
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

    /// The services of the host that the task reaches.
    pub(crate) fn host_services(&self) -> Vec<HostService> {
        self.services.iter().chain(&self.gate).cloned().collect()
    }

    /// The replacements of the surrogates.
    pub(crate) fn secret_replacements(&self) -> &SecretReplacements {
        &self.replacements
    }
}
