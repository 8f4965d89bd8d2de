//! What may be reached.

use std::path::{Path, PathBuf};

use allowlist::Allowlist;
use located_yaml::InvalidFile;
use sandbox::credentials::SecretReplacements;
use sandbox::gate::{self, Repository};
use sandbox::{Network, NetworkSandboxConfig};

use super::Project;
use crate::args::TaskArgs;
use crate::config::{Environment, read_text};
use crate::credentials;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::trust::{Input, Role, policy_request};

impl Project {
    /// What may be reached: the file named by a flag, else the project's; nothing where there is none.
    pub(crate) fn allowlist(&self, flag: Option<&Path>, printer: Printer) -> Result<Allowlist, Failure> {
        let path = flag.map_or_else(|| self.allowlist_path(), Path::to_owned);
        match self.read_allowlist(&path)? {
            Some(policy) => {
                printer.note(format_args!("allowlist from {}", path.display()));
                Ok(policy)
            }
            None if flag.is_some() => Err(self.missing_allowlist(&path)),
            None => {
                printer.warning(self.no_allowlist(&path));
                Ok(Allowlist::default())
            }
        }
    }

    /// There is nothing at the path that a flag names.
    pub(crate) fn missing_allowlist(&self, path: &Path) -> Failure {
        let usual = self.shown(&self.allowlist_path());
        Failure::new(format!("there is no allowlist at `{}`", path.display()))
            .with_hint(format!("leave --allowlist out to use {usual}"))
    }

    /// What it means that the project has no policy.
    pub(crate) fn no_allowlist(&self, path: &Path) -> String {
        format!(
            "there is no {}, so nothing can be reached; write `domains: [api.example.com]` there to allow a host",
            self.shown(path)
        )
    }

    /// Where the project's policy is, or would be.
    pub(crate) fn allowlist_path(&self) -> PathBuf {
        self.folder.allowlist()
    }

    /// The policy at `path`; `None` when it is not there.
    pub(crate) fn read_allowlist(&self, path: &Path) -> Result<Option<Allowlist>, Failure> {
        let Some((input, policy)) = self.policy(path)? else {
            return Ok(None);
        };
        self.obey(input.as_ref(), policy_request(&policy).is_some())?;
        Ok(Some(policy))
    }

    /// The policy at `path`, and what it is to whoever has to trust it; `None` when it is not there.
    pub(super) fn policy(&self, path: &Path) -> Result<Option<(Option<Input>, Allowlist)>, Failure> {
        let label = self.shown(path);
        let Some((found, text)) = read_text(&self.resolver, path, &label)? else {
            return Ok(None);
        };
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let read =
            if is_json { Allowlist::from_json(&text, &label) } else { Allowlist::from_yaml(&text, &label) };
        let input = Self::input(&found, Role::Allowlist, text.as_bytes());
        Ok(Some((input, read?)))
    }

    /// The repositories that tasks reach.
    fn repositories(&self) -> Result<Vec<Repository>, InvalidFile> {
        let gate = gate::open(&self.places.state);
        let found = self.file.gate.iter().map(|(name, location)| {
            gate.repository(name).map_err(|error| InvalidFile::new(location, error.to_string()))
        });
        found.collect()
    }

    /// The network of `run` and `agent`.
    pub(super) fn network(
        &self,
        args: &TaskArgs,
        replacements: SecretReplacements,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Network, Failure> {
        let credentials = &self.file.credentials;
        if !self.is_sandboxed() {
            printer.warning("`network_sandbox: false`: the task reaches whatever this machine reaches, and nothing is logged");
            if let Some(consequence) = credentials::without_proxy(credentials) {
                printer.warning(consequence);
            }
            return Ok(Network::Unrestricted);
        }
        let policy = self.allowlist(args.allowlist.as_deref(), printer)?;
        credentials::report(credentials, environment, &policy, printer);
        let services = self.file.services.iter().cloned();
        let network = NetworkSandboxConfig::new(policy).replacements(replacements).services(services)?;
        Ok(Network::Sandboxed(network.gate(self.repositories()?)))
    }
}
