//! The project: the current folder and its configuration.

use std::fs;
use std::path::{Path, PathBuf};

use located_yaml::{InvalidFile, Spanned};
use rustix::process::geteuid;
use sandbox::host_path::{Found, Resolver};
use sandbox::{Agent, EngineAddress, SandboxConfig, UpstreamConfig};

use super::defaults::AgentDefaults;
use super::review::{Obeyed, TrustedProject};
use super::variables::passed_value;
use crate::args::{GlobalArgs, ImageArgs};
use crate::config::{
    self, ConfigFile, CredentialsFile, Environment, Folder, OuterFiles, Places, UpstreamFile, find_engine,
    own_service, project_key, project_root,
};
use crate::failure::{Failure, START_ENGINE, with_causes};
use crate::printer::Printer;
use crate::trust::{Input, Role};

/// Far more than all authorities of a system: 16 MiB.
const LONGEST_ROOTS: u64 = 16 << 20;
/// The library's default.
const DEFAULT_PREFIX: &str = "sandbox";

/// The current folder and its settings.
#[derive(Debug)]
pub(crate) struct Project {
    /// The work tree.
    pub(crate) root: PathBuf,
    /// The project's name in the state directory.
    pub(crate) key: String,
    pub(crate) places: Places,
    pub(super) folder: Folder,
    pub(super) file: ConfigFile,
    pub(super) config_path: Option<PathBuf>,
    /// The configurations that a task could have written, each with its own content.
    pub(super) config_inputs: Vec<(Input, ConfigFile)>,
    /// The user's own file.
    pub(super) user_file: ConfigFile,
    /// The policies of the machine and of the user.
    pub(super) outer: OuterFiles,
    /// The folder in which the command was started: the work tree, or one in it.
    pub(crate) current: PathBuf,
    /// The defaults of an agent without files.
    pub(super) defaults: AgentDefaults,
    /// Opens paths of the host.
    pub(crate) resolver: Resolver,
    pub(super) obeyed: Obeyed,
    /// The trusted files of the work tree that this command obeys; relative to it.
    pub(super) trusted_paths: Vec<PathBuf>,
    /// The user's home folder, as the environment names it.
    pub(super) homes: Vec<PathBuf>,
}

impl Project {
    /// Reads the settings of the current folder for inspection; commands that obey them use
    /// [`trusted`](Self::trusted).
    pub(crate) fn load(
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let current = fs::canonicalize(".").map_err(Failure::doing("find the current folder"))?;
        let named = global.config.as_ref().map(std::path::absolute).transpose()?;
        if named.is_some() {
            return Self::load_at(&current, named, environment, printer);
        }
        let home = environment.path("HOME").and_then(|home| fs::canonicalize(home).ok());
        let root = project_root(&current, home.as_deref());
        if let Some((settings, why)) = root.ignored {
            printer.warning(format_args!("the settings in {} are ignored: {why}", settings.display()));
        }
        let project = Self::load_at(&root.path, None, environment, printer)?;
        Ok(Self { current, ..project })
    }

    /// Reads the settings of the current folder itself, ignoring parent folders.
    pub(crate) fn load_here(environment: &Environment, printer: Printer) -> Result<Self, Failure> {
        let current = fs::canonicalize(".").map_err(Failure::doing("find the current folder"))?;
        Self::load_at(&current, None, environment, printer)
    }

    /// Reads the settings of the folder `root`, or those at `named`: a configuration, or a folder with
    /// all of them.
    pub(crate) fn load_at(
        root: &Path,
        named: Option<PathBuf>,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let (folder, named) = match named {
            Some(path) if path.is_dir() => (Folder::at(path), None),
            named => (Folder::of(root), named),
        };
        let is_named = named.is_some();
        let path = named.unwrap_or_else(|| folder.config());
        let label = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let places = Places::find(environment)?;
        let resolver = places.resolver(root)?;
        let mut config_inputs = Vec::new();
        let mut noted = |path: &Path, file: &ConfigFile, found: &Found, text: &str| {
            printer.note(format_args!("settings from {}", path.display()));
            let input = Self::input(found, Role::Configuration, text.as_bytes());
            config_inputs.extend(input.map(|input| (input, file.clone())));
        };
        let (mut file, config_path) = match ConfigFile::read(&resolver, &path, &label)? {
            Some((file, found, text)) => {
                noted(&path, &file, &found, &text);
                (file, Some(path))
            }
            None if is_named => {
                let message = format!("the configuration `{}` does not exist", path.display());
                let usual = folder.config();
                let usual = usual.strip_prefix(root).unwrap_or(&usual).display();
                return Err(Failure::new(message).with_hint(format!("omit --config to use {usual}")));
            }
            None => (ConfigFile::default(), None),
        };
        let mut user_file = ConfigFile::default();
        if let Some(path) = config::user_file(environment)
            && let Some((user, found, text)) = ConfigFile::read_user(&resolver, &path)?
        {
            noted(&path, &user, &found, &text);
            file = file.over(user.clone())?;
            user_file = user;
        }
        Ok(Self {
            key: project_key(root),
            root: root.to_owned(),
            places,
            folder,
            file,
            config_path,
            config_inputs,
            user_file,
            outer: OuterFiles::find(environment),
            current: root.to_owned(),
            defaults: AgentDefaults::default(),
            resolver,
            obeyed: Obeyed::default(),
            trusted_paths: Vec::new(),
            homes: environment.path("HOME").into_iter().collect(),
        })
    }

    /// The files of its settings, whether they exist or not: those of its folder, and a named
    /// configuration.
    pub(crate) fn settings_files(&self) -> impl Iterator<Item = PathBuf> {
        self.folder.files().into_iter().chain(self.config_path.clone())
    }

    /// Whether its settings are at the same place of the work tree `folder` as those of `other` in
    /// `top`.
    pub(crate) fn is_counterpart_of(&self, other: &Self, top: &Path, folder: &Path) -> bool {
        let place = |root: &Path, from: &Path| root.strip_prefix(from).ok().map(Path::to_owned);
        place(&self.root, folder).is_some_and(|here| place(&other.root, top) == Some(here))
            && self.folder.name() == other.folder.name()
    }

    /// The folder of its runs.
    pub(crate) fn logs(&self) -> PathBuf {
        self.places.logs(&self.key)
    }

    /// The prefix of the names of all objects.
    pub(crate) fn prefix(&self) -> String {
        self.file.prefix.clone().unwrap_or_else(|| DEFAULT_PREFIX.to_owned())
    }

    /// The path of the configuration; `None` if there is none.
    pub(crate) fn config_path(&self) -> Option<&Path> {
        self.config_path.as_deref()
    }

    /// The agent of the configuration, otherwise Claude Code.
    pub(crate) fn agent(&self) -> Agent {
        self.file.agent.clone().unwrap_or_default()
    }

    /// The credentials of the configuration.
    pub(crate) fn credentials(&self) -> &CredentialsFile {
        &self.file.credentials
    }

    /// Whether tasks reach only what the policy permits.
    pub(crate) fn is_sandboxed(&self) -> bool {
        self.file.network_sandbox != Some(false)
    }

    /// The errors of a valid configuration that would keep a run from starting.
    pub(crate) fn problems(&self, environment: &Environment) -> Vec<Failure> {
        let values = self.file.env.values().map(|value| value.resolve(environment).err());
        let passed = self.file.pass_env.iter();
        let passed = passed.map(|(name, location)| passed_value(environment, name, location).err());
        // Nothing is run or read, because the configuration may not be trusted.
        let places = self.file.credentials.places(environment, &self.resolver);
        let ask = self.file.ask.as_ref().and_then(|ask| ask.trusted(environment, &self.resolver).err());
        let credentials = match self.file.credentials.with_placeholders().prepare(environment) {
            Ok(secrets) => self.given_away(environment, &secrets),
            Err(problems) => problems,
        };
        let mut problems: Vec<Failure> = values
            .chain(passed)
            .flatten()
            .chain(places)
            .chain(ask)
            .chain(credentials)
            .map(Failure::from)
            .collect();
        let roots = self.file.upstream.extra_roots.as_ref();
        problems.extend(roots.and_then(|path| self.roots(path).err()));
        problems.extend(self.repositories().err().map(Failure::from));
        problems.extend(self.image_problem());
        problems.extend(self.mount_problems());
        problems
    }

    /// The certificate authorities for upstream servers at `path`.
    pub(super) fn roots(&self, path: &Spanned<PathBuf>) -> Result<(Option<Input>, String), Failure> {
        let (found, text) = roots(&self.resolver, path)?;
        Ok((Self::input(&found, Role::Roots, text.as_bytes()), text))
    }

    /// A path, relative to the project if it is inside.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

impl TrustedProject {
    /// The configuration of the engine and of upstream access.
    pub(crate) fn sandbox(
        &self,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<SandboxConfig, Failure> {
        let engine = engine(global, self.file.engine.as_ref(), environment, printer)?;
        let mut config = SandboxConfig::new(engine, &self.places.state).on_demand();
        config.prefix = self.prefix();
        config.proxy_dir = environment.path("SANDBOX_PROXY_DIR");
        config.upstream = self.upstream()?;
        Ok(config)
    }

    /// The configuration of upstream access.
    pub(crate) fn upstream(&self) -> Result<UpstreamConfig, Failure> {
        upstream(&self.file.upstream, |path| {
            let (input, roots) = self.roots(path)?;
            self.obey(input.as_ref(), true)?;
            Ok(roots)
        })
    }

    /// The same, for a container of the image in `image`.
    pub(super) fn sandbox_for(
        &self,
        image: &ImageArgs,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<SandboxConfig, Failure> {
        let mut config = self.sandbox(global, environment, printer)?;
        if let Some(age) = image.max_image_age {
            config.max_image_age = age;
        }
        Ok(config)
    }
}

/// The configuration of upstream access in `file`; `roots` reads the certificate authorities that it
/// names.
pub(super) fn upstream(
    file: &UpstreamFile,
    roots: impl FnOnce(&Spanned<PathBuf>) -> Result<String, Failure>,
) -> Result<UpstreamConfig, Failure> {
    let UpstreamFile { dns, extra_roots, allow_addresses } = file;
    let mut upstream = UpstreamConfig::default();
    upstream.dns = *dns;
    upstream.allow_addresses = allow_addresses.iter().map(|network| network.0).collect();
    upstream.extra_roots_pem = extra_roots.as_ref().map(roots).transpose()?.unwrap_or_default();
    Ok(upstream)
}

/// The certificate authorities at `path`.
pub(super) fn roots(resolver: &Resolver, path: &Spanned<PathBuf>) -> Result<(Found, String), Failure> {
    let problem = |what: String| Failure::from(InvalidFile::new(path.location(), what));
    let read = resolver.find(path).and_then(|found| Ok((found.read(LONGEST_ROOTS)?, found)));
    let (bytes, found) = read.map_err(|error| problem(with_causes(&error)))?;
    match String::from_utf8(bytes) {
        Ok(text) if text.contains("-----BEGIN CERTIFICATE-----") => Ok((found, text)),
        _ => Err(problem(format!("`{}` does not contain a PEM certificate", path.display()))
            .with_hint("convert it with `openssl x509 -inform der -in FILE -out FILE.pem`")),
    }
}

/// The engine of the flag, otherwise the one that is `named`, otherwise of the environment.
pub(super) fn engine(
    global: &GlobalArgs,
    named: Option<&EngineAddress>,
    environment: &Environment,
    printer: Printer,
) -> Result<EngineAddress, Failure> {
    let is_there = |path: &Path| path.exists();
    let (engine, source) = match find_engine(global.engine.as_ref(), named, environment, is_there) {
        Ok(found) => found,
        Err(error) => match own_service(environment, printer)? {
            Some(engine) => (engine, "podman's service, started here".to_owned()),
            None if !geteuid().is_root() && environment.exact("XDG_RUNTIME_DIR").is_none() => {
                return Err(error.with_hint(format!(
                    "set XDG_RUNTIME_DIR to a folder of your own in memory, where `sandbox` can start podman's service; or {START_ENGINE}"
                )));
            }
            None => return Err(error),
        },
    };
    printer.note(format_args!("engine {engine}, from {source}"));
    Ok(engine)
}

#[cfg(test)]
mod tests {
    use located_yaml::{Location, Position};

    use super::*;

    #[test]
    fn default_prefix_is_that_of_the_library() {
        let config = SandboxConfig::new(sandbox::EngineAddress::unix("/x"), "/y");
        assert_eq!(config.prefix, DEFAULT_PREFIX);
    }

    #[test]
    fn roots_without_a_certificate_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let project = super::super::fixtures::project(dir.path(), Path::new("/state"));
        let error = |path: PathBuf| {
            let place = Location::new("sandbox.yaml", Position { line: 2, column: 3 });
            project.roots(&Spanned::new(path, place)).unwrap_err().to_string()
        };
        let path = dir.path().join("roots.pem");
        fs::write(&path, "binary").unwrap();
        assert!(error(path).ends_with("roots.pem` does not contain a PEM certificate"));
        let missing = error("/no/such/file".into());
        assert!(missing.starts_with("sandbox.yaml:2:3: ") && missing.contains("/no/such/file"), "{missing}");
    }
}
