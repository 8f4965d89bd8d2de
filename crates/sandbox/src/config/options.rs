//! Configuration of a [`Sandbox`](crate::Sandbox).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::address::{EngineAddress, InvalidConfig};

/// How proxies reach the internet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// The name server that proxies use. Default: the host's first usable one.
    pub dns: Option<SocketAddr>,
    /// CAs that proxies trust in addition to the web's, as PEM. Default: none.
    pub extra_roots_pem: String,
    /// Networks that may be reached although they are not public. Default: none.
    pub allow_addresses: Vec<IpNet>,
}

/// Configuration of a [`Sandbox`](crate::Sandbox).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SandboxConfig {
    /// The engine's socket.
    pub engine: EngineAddress,
    /// Separates gateways and command lines on one host: every object's name starts with it.
    pub prefix: String,
    /// The folder of the root authority, locks and public trust files; created with mode 0700.
    pub state_dir: PathBuf,
    /// The folder of the static programs `sandbox-proxy` and `sandbox-inside`, which are built from
    /// the crates of those names. Default: the checkout's build output if the running program is in
    /// it, else the folder of the running program.
    pub proxy_dir: Option<PathBuf>,
    /// How proxies reach the internet.
    pub upstream: UpstreamConfig,
    /// An image that is older is rebuilt. Default: 24 h.
    pub max_image_age: Duration,
    /// Whether [`Sandbox::start`](crate::Sandbox::start) only connects, to inspect or clean up. The
    /// first execution that needs a proxy then prepares the shared resources, and nothing is swept
    /// until [`Sandbox::sweep`](crate::Sandbox::sweep) or
    /// [`Sandbox::sweep_at_start`](crate::Sandbox::sweep_at_start) is called. Default: no.
    pub on_demand: bool,
    /// Whether the objects of an execution that has ended are removed from the engine by the
    /// [`shutdown`](crate::Sandbox::shutdown), or by another process after a
    /// [`hand_over`](crate::Sandbox::hand_over), instead of at once in the background. Until then its
    /// dead containers and its network stay. Default: no.
    pub remove_at_shutdown: bool,
}

impl SandboxConfig {
    /// The defaults, with the engine at `engine` and state in `state_dir`: prefix `sandbox`, images
    /// at most 24 h old.
    #[must_use]
    pub fn new(engine: EngineAddress, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            engine,
            prefix: "sandbox".to_owned(),
            state_dir: state_dir.into(),
            proxy_dir: None,
            upstream: UpstreamConfig::default(),
            max_image_age: Duration::from_hours(24),
            on_demand: false,
            remove_at_shutdown: false,
        }
    }

    /// Like [`new`](Self::new), with the engine that [`EngineAddress::discover`] finds.
    ///
    /// # Errors
    ///
    /// As for [`EngineAddress::discover`].
    pub fn discover(state_dir: impl Into<PathBuf>) -> Result<Self, InvalidConfig> {
        Ok(Self::new(EngineAddress::discover()?, state_dir))
    }

    /// Sets [`on_demand`](field@Self::on_demand).
    #[must_use]
    pub fn on_demand(self) -> Self {
        Self { on_demand: true, ..self }
    }

    /// Checks whether `prefix` is a valid [`prefix`](Self::prefix).
    ///
    /// # Errors
    ///
    /// When it is not 1 to 32 lower-case letters, digits and hyphens, starting with a letter.
    pub fn validate_prefix(prefix: &str) -> Result<(), InvalidConfig> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let good = prefix.starts_with(|c: char| c.is_ascii_lowercase())
            && prefix.len() <= 32
            && prefix.chars().all(plain);
        if good {
            return Ok(());
        }
        Err(InvalidConfig(format!(
            "prefix `{}` must be 1 to 32 lower-case letters, digits and hyphens, starting with a letter",
            prefix.escape_debug()
        )))
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidConfig> {
        Self::validate_prefix(&self.prefix)?;
        if !self.state_dir.is_absolute() {
            return Err(InvalidConfig(format!("state_dir `{}` must be absolute", self.state_dir.display())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_that_is_not_an_object_name_is_refused() {
        for (prefix, good) in
            [("sandbox", true), ("a-1", true), ("", false), ("A", false), ("-a", false), ("a b", false)]
        {
            let mut config = SandboxConfig::new(EngineAddress::unix("/x"), "/state");
            prefix.clone_into(&mut config.prefix);
            assert_eq!(config.validate().is_ok(), good, "{prefix:?}");
        }
    }
}
