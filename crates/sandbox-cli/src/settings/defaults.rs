//! The defaults without files: the default image, and for an agent its program, its key and its
//! policy.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use allowlist::{Allowlist, HostPattern, Preset, Rule};
use sandbox::host_path::{Found, Resolver};
use sandbox::{Agent, ImageSource, Network, NetworkSandboxConfig};
use sandbox_logins::LoginKind;

use super::policy::with_flags;
use super::{Project, TrustedProject};
use crate::args::{ImageArgs, TaskArgs};
use crate::config::{CredentialsFile, Environment};
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};

/// The Dockerfile of the default image.
const DOCKERFILE: &str = include_str!("default.Dockerfile");
/// The last of the packages that it installs.
const LAST_PACKAGE: &str = "ripgrep";
/// The magic number of native programs.
const ELF: &[u8; 4] = b"\x7fELF";

/// The defaults of an agent without files.
#[derive(Debug, Default)]
pub(super) struct AgentDefaults {
    /// Its program on the host.
    pub(super) program: Option<PathBuf>,
    /// The agent that is installed in the default image.
    installed: Option<Agent>,
    /// The policy for the API for which it has a masked key or a login; `None` without one.
    pub(super) policy: Option<Allowlist>,
    /// The variables of the environment that are masked.
    keys: Vec<String>,
}

impl Project {
    /// Whether neither a flag nor a file names the source of the image.
    pub(crate) fn uses_default_image(&self, args: &ImageArgs) -> bool {
        !self.names_image(args) && !self.has_devcontainer()
    }

    /// Whether a flag or a file of the sandbox does.
    pub(super) fn names_image(&self, args: &ImageArgs) -> bool {
        let file = self.file.image.is_some() || self.file.dockerfile.is_some() || self.file.context.is_some();
        let usual = || self.resolver.find(&self.folder.dockerfile());
        args.names_image() || file || !usual().is_err_and(|error| error.is_not_found())
    }

    /// The image of a Dockerfile that is part of this program, so no task can have written it. Its
    /// steps reach public hosts, through a proxy, unless the project has an allowlist for builds.
    pub(super) fn default_image(&self) -> Result<ImageSource, Failure> {
        let network = match self.build_network()? {
            Network::Disabled => {
                let everything =
                    HostPattern::new("*").map_err(Failure::doing("allow the public internet"))?;
                let policy = self.within_outer(Allowlist::new([Rule::Domain(everything)]))?;
                Network::Sandboxed(NetworkSandboxConfig::new(policy))
            }
            network => network,
        };
        Ok(ImageSource::build(dockerfile(self.defaults.installed.as_ref(), &[]), BTreeMap::new())
            .with_network(network))
    }

    /// The variables of `agent`'s keys that are masked unless a file configures them.
    fn default_key(&self, agent: &Agent, environment: &Environment) -> Option<CredentialsFile> {
        let credentials = &self.file.credentials;
        let is_key = |name: &str| agent.credentials().any(|(variable, _)| variable == name);
        let is_said = credentials.variables().any(|(variable, _)| is_key(variable))
            || self.file.env.keys().chain(self.file.pass_env.keys()).any(|name| is_key(name))
            || !credentials.signing.is_empty()
            || credentials.logins.iter().any(|entry| Some(entry.kind) == login_of(agent));
        (self.is_sandboxed() && !is_said).then(|| CredentialsFile::of_environment(agent, environment))
    }

    /// The presets of a new allowlist, which replaces the default policy of the agent. Of the
    /// credentials in files, only trusted ones count.
    pub(super) fn first_presets(&self, environment: &Environment) -> Vec<Preset> {
        let agent = self.agent();
        let mut credentials = CredentialsFile::of_environment(&agent, environment);
        if self.review(None).is_recorded() {
            credentials.masked.extend(self.file.credentials.masked.iter().cloned());
            credentials.logins.extend(self.file.credentials.logins.iter().cloned());
        }
        presets(&agent, &credentials)
    }

    /// Reports the defaults in use, in two lines.
    pub(super) fn report_defaults(&self, args: &TaskArgs, printer: Printer) -> Result<(), Failure> {
        let image = &args.image;
        let AgentDefaults { program, installed, policy, keys } = &self.defaults;
        let change = "; `sandbox init` writes files to customize it";
        // Without the network sandbox, no policy was reviewed.
        let is_default = self.is_sandboxed()
            && args.policy.allowlist.is_none()
            && policy.is_some()
            && self.read_allowlist(&self.allowlist_path())?.is_none();
        let policy = policy.as_ref().filter(|_| is_default);
        if self.uses_default_image(image) {
            let agent = match (program, installed) {
                (Some(program), _) => format!(", with {}", program.display()),
                (None, Some(agent)) => format!(", with {agent} from npm"),
                (None, None) => String::new(),
            };
            let change = if policy.is_none() { change } else { "" };
            printer.message(format_args!("image: built from the default Dockerfile{agent}{change}"));
        } else if !self.names_image(image)
            && let Ok(Some(devcontainer)) = self.devcontainer()
        {
            let ignored = match devcontainer.ignored.as_slice() {
                [] => String::new(),
                ignored => format!("; ignored there: {}", sanitize_name(&ignored.join(", "))),
            };
            printer.message(format_args!("image: from {}{ignored}", self.shown(devcontainer.found.path())));
        }
        if let Some(policy) = policy {
            let key =
                if keys.is_empty() { String::new() } else { format!("; key: {}, masked", keys.join(", ")) };
            let reached = if args.audit {
                "any public host, for --audit".to_owned()
            } else {
                format!("{} only", hosts(&with_flags(Some(policy.clone()), &args.policy)))
            };
            printer.message(format_args!("network: {reached}{key}{change}"));
        }
        Ok(())
    }
}

impl TrustedProject {
    /// The same, for a run of `agent`: with its key from the environment, its program and the
    /// policy of its API unless files configure them. `has_program`: a flag names its program.
    ///
    /// # Errors
    ///
    /// If it runs in the default image, which has no key, and the environment has none either.
    pub(crate) fn for_agent(
        self,
        agent: &Agent,
        has_program: bool,
        image: &ImageArgs,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let is_default = !self.names_image(image);
        let mut file = self.file.clone();
        let mut keys = Vec::new();
        if let Some(key) = self.default_key(agent, environment) {
            if key.masked.is_empty() && is_default {
                return Err(no_key(agent));
            }
            keys.extend(key.masked.iter().map(|entry| entry.variable.clone()));
            file.credentials.masked.extend(key.masked);
        }
        let needs_program = is_default && !has_program;
        let program = needs_program.then(|| native_program(agent, environment, &self.resolver)).flatten();
        let is_missing = needs_program && program.is_none() && self.uses_default_image(image);
        let installed = is_missing.then(|| agent.clone());
        let presets = presets(agent, &file.credentials);
        let policy = (!presets.is_empty()).then(|| Allowlist::default().with_presets(presets));
        Ok(self.with_defaults(AgentDefaults { program, installed, policy, keys }, file))
    }
}

/// The login that `agent` may have.
pub(crate) fn login_of(agent: &Agent) -> Option<LoginKind> {
    agent.name().parse().ok()
}

/// The default Dockerfile, with an agent and additional Debian packages.
pub(super) fn dockerfile(installed: Option<&Agent>, packages: &[&str]) -> String {
    let packages = [&[LAST_PACKAGE], packages].concat().join(" ");
    let package = installed.map(Agent::npm_package);
    let install = package.map(|package| format!("RUN npm install --global --no-audit --no-fund {package}\n"));
    DOCKERFILE.replace(LAST_PACKAGE, &packages) + &install.unwrap_or_default()
}

fn no_key(agent: &Agent) -> Failure {
    let variables: Vec<&str> = agent.credentials().map(|(variable, _)| variable).collect();
    let login = login_of(agent).map(|login| {
        format!(
            "; or write `logins: {{{}: {{}}}}` to .sandbox/sandbox.yaml to use the host's login",
            login.name()
        )
    });
    Failure::new(format!("{agent} has no API key: {} is not set", variables.join(" or "))).with_hint(format!(
        "export {}: the agent gets only a surrogate of it{}",
        variables.first().unwrap_or(&"it"),
        login.unwrap_or_default()
    ))
}

/// The presets for the APIs for which `agent` has credentials: those whose hosts all get these. At
/// other hosts, the task could send everything that it reads with another party's key, so there are
/// none without credentials.
pub(super) fn presets(agent: &Agent, credentials: &CredentialsFile) -> Vec<Preset> {
    let is_key = |name: &str| agent.credentials().any(|(variable, _)| variable == name);
    let masked = credentials.masked.iter().filter(|entry| is_key(&entry.variable));
    let masked = masked.flat_map(|entry| &entry.injection.scopes);
    let logins = credentials.logins.iter().filter(|entry| Some(entry.kind) == login_of(agent));
    let logins = logins.flat_map(|entry| &entry.injection.scopes);
    presets_of(&masked.chain(logins).map(HostPattern::as_str).collect::<Vec<_>>())
}

/// The presets with only these hosts.
pub(super) fn presets_of(hosts: &[&str]) -> Vec<Preset> {
    let is_its = |preset: &Preset| preset.rules().iter().all(|rule| hosts.contains(&rule.host().as_str()));
    Preset::all().filter(is_its).collect()
}

fn hosts(policy: &Allowlist) -> String {
    let mut hosts: Vec<&str> = policy.rules().iter().map(|rule| rule.host().as_str()).collect();
    hosts.dedup();
    hosts.join(", ")
}

/// The program of `agent` in `PATH`. A script is useless in a container without the files next to
/// it, and a program that a task could have written is not the user's.
fn native_program(agent: &Agent, environment: &Environment, resolver: &Resolver) -> Option<PathBuf> {
    let folders = environment.exact("PATH")?;
    let program = std::env::split_paths(folders)
        .filter(|folder| folder.is_absolute())
        .filter_map(|folder| resolver.find(&folder.join(agent.name())).ok())
        .find(Found::is_file)?;
    (!program.is_untrusted() && is_native(&program)).then(|| program.path().to_owned())
}

fn is_native(program: &Found) -> bool {
    let mut magic = [0; ELF.len()];
    program.file().is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == *ELF
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::fixtures::{image_args, project};
    use super::*;
    use crate::config::ConfigFile;

    const KEY: &str = "sk-ant-api03-0123456789012345678901234567890123456789";

    fn for_agent(name: &str, yaml: &str, environment: &Environment) -> Result<TrustedProject, Failure> {
        let root = tempfile::tempdir().unwrap();
        let mut project = project(root.path(), Path::new("/state"));
        project.file = ConfigFile::of_text(yaml);
        let trusted = project.trusted(None, &crate::trust::Trust::Now, Printer::new(0, true)).unwrap();
        trusted.for_agent(&name.parse().unwrap(), false, &image_args(), environment)
    }

    #[test]
    fn without_a_masked_key_no_host_is_reachable_by_default() {
        let none = Environment::default();
        let key = Environment::from([("ANTHROPIC_API_KEY", KEY)]);
        for (agent, yaml, environment) in [
            ("claude", "env: {ANTHROPIC_API_KEY: sk-theirs}", &key),
            ("opencode", "env: {OPENAI_API_KEY: sk-theirs}", &key),
            ("claude", "image: x", &none),
            ("opencode", "image: x", &none),
            ("claude", "image: x\nmasked_secrets: {GH_TOKEN: {preset: github}}", &none),
        ] {
            let project = for_agent(agent, yaml, environment).unwrap();
            assert_eq!(project.defaults.policy, None, "{agent}: {yaml}");
        }
        // The controls: keys masked by default, or by trusted files.
        for yaml in [
            "image: x",
            "logins: {claude: {}}",
            "masked_secrets: {CLAUDE_CODE_OAUTH_TOKEN: {preset: anthropic}}",
        ] {
            assert_eq!(allowed(&for_agent("claude", yaml, &key).unwrap()), "api.anthropic.com", "{yaml}");
        }
    }

    fn allowed(project: &TrustedProject) -> String {
        hosts(project.defaults.policy.as_ref().unwrap())
    }

    #[test]
    fn key_from_the_environment_is_masked_and_allows_only_its_api() {
        let both =
            Environment::from([("ANTHROPIC_API_KEY", KEY), ("OPENAI_API_KEY", "sk-0123456789abcdef0123")]);
        for (agent, variables, expected) in [
            ("claude", &["ANTHROPIC_API_KEY"][..], "api.anthropic.com"),
            ("opencode", &["ANTHROPIC_API_KEY", "OPENAI_API_KEY"], "api.anthropic.com, api.openai.com"),
        ] {
            let project = for_agent(agent, "", &both).unwrap();
            let masked: Vec<&str> = project.file.credentials.variables().map(|(name, _)| name).collect();
            assert_eq!((masked.as_slice(), allowed(&project).as_str()), (variables, expected));
            assert!(project.file.credentials.prepare(&both).is_ok());
        }
        // Another account's key must not reach a vendor for which the user has no key.
        let one = Environment::from([("ANTHROPIC_API_KEY", KEY)]);
        assert_eq!(allowed(&for_agent("opencode", "", &one).unwrap()), "api.anthropic.com");
    }

    #[test]
    fn missing_key_is_reported_with_its_fix() {
        let none = for_agent("claude", "", &Environment::default()).unwrap_err();
        assert_eq!(
            none.to_string(),
            "Claude Code has no API key: ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN is not set"
        );
        assert!(none.hint().unwrap().starts_with("export ANTHROPIC_API_KEY"), "{none:?}");
        // An image of the project may have one.
        assert!(for_agent("claude", "image: x", &Environment::default()).is_ok());
    }

    #[test]
    fn file_overrides_the_default_key() {
        let environment = Environment::from([("ANTHROPIC_API_KEY", KEY)]);
        for yaml in [
            "env: {ANTHROPIC_API_KEY: other}",
            "logins: {claude: {}}",
            "masked_secrets: {CLAUDE_CODE_OAUTH_TOKEN: {preset: anthropic}}",
            "network_sandbox: false",
        ] {
            let project = for_agent("claude", yaml, &environment).unwrap();
            assert!(project.defaults.keys.is_empty(), "{yaml}");
        }
        let other = "masked_secrets: {GH_TOKEN: {preset: github}}";
        assert_eq!(for_agent("claude", other, &environment).unwrap().defaults.keys, ["ANTHROPIC_API_KEY"]);
    }

    #[test]
    fn agent_is_the_native_host_program_or_from_npm() {
        let folder = tempfile::tempdir().unwrap();
        let path = format!("relative:{}", folder.path().display());
        let environment = Environment::from([("ANTHROPIC_API_KEY", KEY), ("PATH", path.as_str())]);
        let found = || {
            let project = for_agent("claude", "", &environment).unwrap();
            let ImageSource::Build { dockerfile, .. } = project.image(&image_args()).unwrap() else {
                panic!()
            };
            let dockerfile = String::from_utf8(dockerfile).unwrap();
            (project.defaults.program.clone(), dockerfile.contains("npm install --global"))
        };
        assert_eq!(found(), (None, true));
        fs::write(folder.path().join("claude"), "#!/usr/bin/env node").unwrap();
        assert_eq!(found(), (None, true));
        fs::write(folder.path().join("claude"), "\x7fELF and more").unwrap();
        let program = folder.path().canonicalize().unwrap().join("claude");
        assert_eq!(found(), (Some(program), false));
    }
}
