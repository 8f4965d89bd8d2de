//! The settings of `verify`.

use std::path::PathBuf;

use allowlist::Allowlist;
use sandbox::diagnostics::ExpectedProgram;
use sandbox::{ImageSource, Isolation, Network, NetworkSandboxConfig, ResourceLimits, SandboxConfig};

use super::TrustedProject;
use crate::args::{GlobalArgs, Preset, VerifyArgs};
use crate::config::Environment;
use crate::failure::Failure;
use crate::printer::Printer;

/// The settings of `verify`.
#[derive(Debug)]
pub(crate) struct VerifySettings {
    pub(crate) sandbox: SandboxConfig,
    pub(crate) image: ImageSource,
    pub(crate) isolation: Isolation,
    pub(crate) limits: ResourceLimits,
    pub(crate) network: Network,
    pub(crate) programs: Vec<ExpectedProgram>,
    /// The folder of the project's runs, for the network log of a build.
    pub(crate) logs: PathBuf,
}

impl TrustedProject {
    /// The settings of `verify`: the project's image, network and limits, but none of its mounts,
    /// variables and secrets.
    pub(crate) fn verification(
        &self,
        args: &VerifyArgs,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<VerifySettings, Failure> {
        let sandbox = self.sandbox_for(&args.image, global, environment, printer)?;
        let (isolation, limits, network) = match args.isolation {
            Preset::Untrusted => (Isolation::untrusted(), ResourceLimits::untrusted(), Network::Disabled),
            // An empty policy, because the checks send no request that a policy could allow.
            Preset::Agent if self.is_sandboxed() => {
                let network = NetworkSandboxConfig::new(Allowlist::default());
                (Isolation::agent(), self.file.resource_limits, Network::Sandboxed(network))
            }
            Preset::Agent => (Isolation::agent(), self.file.resource_limits, Network::Unrestricted),
        };
        Ok(VerifySettings {
            image: self.image(&args.image)?,
            sandbox,
            isolation,
            limits,
            network,
            programs: args.programs.clone(),
            logs: self.logs(),
        })
    }
}
