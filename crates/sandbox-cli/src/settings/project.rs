//! The current folder and what its configuration says of engine and world.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::host_path::Resolver;
use sandbox::{Agent, SandboxConfig};

use super::review::{Obeyed, TrustedProject};
use super::variables::passed_value;
use crate::args::{GlobalArgs, ImageArgs};
use crate::config::{
    ConfigFile, CredentialsFile, Environment, Folder, Places, UpstreamFile, find_engine, project_key,
};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::trust::{Input, Role};

/// Far more than all authorities of a system: 16 MiB.
const LONGEST_ROOTS: u64 = 16 << 20;
/// That of the library.
const DEFAULT_PREFIX: &str = "sandbox";

/// The current folder and its settings.
#[derive(Debug)]
pub(crate) struct Project {
    /// The work tree.
    pub(crate) root: PathBuf,
    /// Names the project in the state directory.
    pub(crate) key: String,
    pub(crate) places: Places,
    pub(super) folder: Folder,
    pub(super) file: ConfigFile,
    pub(super) config_path: Option<PathBuf>,
    /// The configuration, where a task could have written it.
    pub(super) config_input: Option<Input>,
    /// Opens what paths of this machine name.
    pub(crate) resolver: Resolver,
    pub(super) obeyed: Obeyed,
    /// The files of the work tree that this command obeys because they were trusted; relative to it.
    pub(super) trusted_paths: Vec<PathBuf>,
    /// The user's home folder, as the environment names it.
    pub(super) homes: Vec<PathBuf>,
}

impl Project {
    /// Reads the settings of the current folder, to look at them: [`trusted`](Self::trusted) is for commands that obey them.
    pub(crate) fn load(
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let root = fs::canonicalize(".").map_err(Failure::doing("find the current folder"))?;
        let named = global.config.as_ref().map(std::path::absolute).transpose()?;
        Self::load_at(&root, named, environment, printer)
    }

    /// Reads the settings of the folder `root`, from the configuration at `named` where there is one.
    pub(crate) fn load_at(
        root: &Path,
        named: Option<PathBuf>,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let folder = Folder::of(root);
        let is_named = named.is_some();
        let path = named.unwrap_or_else(|| folder.config());
        let label = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let places = Places::find(environment)?;
        let resolver = places.resolver(root)?;
        let (file, config_path, config_input) = match ConfigFile::read(&resolver, &path, &label)? {
            Some((file, found, text)) => {
                printer.note(format_args!("settings from {}", path.display()));
                let input = Self::input(&found, Role::Configuration, text.as_bytes());
                (file, Some(path), input)
            }
            None if is_named => {
                let message = format!("there is no configuration at `{}`", path.display());
                let usual = folder.config();
                let usual = usual.strip_prefix(root).unwrap_or(&usual).display();
                return Err(Failure::new(message).with_hint(format!("leave --config out to use {usual}")));
            }
            None => (ConfigFile::default(), None, None),
        };
        Ok(Self {
            key: project_key(root),
            root: root.to_owned(),
            places,
            folder,
            file,
            config_path,
            config_input,
            resolver,
            obeyed: Obeyed::default(),
            trusted_paths: Vec::new(),
            homes: environment.path("HOME").into_iter().collect(),
        })
    }

    /// The folder of its runs.
    pub(crate) fn logs(&self) -> PathBuf {
        self.places.logs(&self.key)
    }

    /// What the names of all objects begin with.
    pub(crate) fn prefix(&self) -> String {
        self.file.prefix.clone().unwrap_or_else(|| DEFAULT_PREFIX.to_owned())
    }

    /// The configuration that was read; `None` where there is none.
    pub(crate) fn config_path(&self) -> Option<&Path> {
        self.config_path.as_deref()
    }

    /// The agent of the configuration, else Claude Code.
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

    /// What is wrong with the configuration although it can be read: a run would not start.
    pub(crate) fn faults(&self, environment: &Environment) -> Vec<Failure> {
        let values = self.file.env.values().map(|value| value.resolve(environment).err());
        let passed = self.file.pass_env.iter();
        let passed = passed.map(|(name, location)| passed_value(environment, name, location).err());
        // Nothing is run or read for it: whoever only looks has not trusted it.
        let places = self.file.credentials.places(environment, &self.resolver);
        let credentials = match self.file.credentials.with_stand_ins().prepare(environment) {
            Ok(secrets) => self.given_away(environment, &secrets),
            Err(faults) => faults,
        };
        let mut faults: Vec<Failure> =
            values.chain(passed).flatten().chain(places).chain(credentials).map(Failure::from).collect();
        let roots = self.file.upstream.extra_roots.as_deref();
        faults.extend(roots.and_then(|path| self.roots(path).err()));
        faults.extend(self.image_fault());
        faults.extend(self.mount_faults());
        faults
    }

    /// The certificates of authorities for upstream servers at `path`.
    pub(super) fn roots(&self, path: &Path) -> Result<(Option<Input>, String), Failure> {
        let found = self.resolver.find(path)?;
        let bytes = found.read(LONGEST_ROOTS)?;
        let input = Self::input(&found, Role::Roots, &bytes);
        match String::from_utf8(bytes) {
            Ok(text) if text.contains("-----BEGIN CERTIFICATE-----") => Ok((input, text)),
            _ => Err(Failure::new(format!(
                "`{}`, named by `upstream.extra_roots`, holds no certificate",
                path.display()
            ))
            .with_hint("convert it with `openssl x509 -inform der -in FILE -out FILE.pem`")),
        }
    }

    /// A path as a reader in the project knows it.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

impl TrustedProject {
    /// How to reach the engine and the world.
    pub(crate) fn sandbox(
        &self,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<SandboxConfig, Failure> {
        let is_there = |path: &Path| path.exists();
        let (engine, source) =
            find_engine(global.engine.as_ref(), self.file.engine.as_ref(), environment, is_there)?;
        printer.note(format_args!("engine {engine}, from {source}"));
        let mut config = SandboxConfig::new(engine, &self.places.state).on_demand();
        config.prefix = self.prefix();
        config.proxy_dir = environment.path("SANDBOX_PROXY_DIR");
        let UpstreamFile { dns, extra_roots, allow_addresses } = &self.file.upstream;
        config.upstream.dns = *dns;
        config.upstream.allow_addresses.clone_from(allow_addresses);
        if let Some(path) = extra_roots {
            let (input, roots) = self.roots(path)?;
            self.obey(input.as_ref(), true)?;
            config.upstream.extra_roots_pem = roots;
        }
        Ok(config)
    }

    /// The same, for a container of the image that `image` asks for.
    pub(super) fn sandbox_for(
        &self,
        image: &ImageArgs,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<SandboxConfig, Failure> {
        let mut config = self.sandbox(global, environment, printer)?;
        if let Some(seconds) = image.max_image_age {
            config.max_image_age = Duration::from_secs(seconds);
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_prefix_is_that_of_the_library() {
        let config = SandboxConfig::new(sandbox::EngineAddress::unix("/x"), "/y");
        assert_eq!(config.prefix, DEFAULT_PREFIX);
    }

    #[test]
    fn roots_that_hold_no_certificate_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let project = super::super::fixtures::project(dir.path(), Path::new("/state"));
        let path = dir.path().join("roots.pem");
        fs::write(&path, "binary").unwrap();
        let error = project.roots(&path).unwrap_err().to_string();
        assert!(error.contains("holds no certificate"), "{error}");
        assert!(project.roots(Path::new("/no/such/file")).is_err());
    }
}
