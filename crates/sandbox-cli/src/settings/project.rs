//! The current folder and what its configuration says of engine and world.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::SandboxConfig;

use super::variables::passed_value;
use crate::args::{GlobalArgs, ImageArgs};
use crate::config::{
    ConfigFile, CredentialsFile, Environment, Folder, Places, UpstreamFile, find_engine, project_key,
};
use crate::failure::Failure;
use crate::printer::Printer;

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
}

impl Project {
    /// Reads the settings of the current folder.
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
        let (file, config_path) = match ConfigFile::read(&path, &label)? {
            Some(file) => {
                printer.note(format_args!("settings from {}", path.display()));
                (file, Some(path))
            }
            None if is_named => {
                let message = format!("there is no configuration at `{}`", path.display());
                let usual = folder.config();
                let usual = usual.strip_prefix(root).unwrap_or(&usual).display();
                return Err(Failure::new(message).with_hint(format!("leave --config out to use {usual}")));
            }
            None => (ConfigFile::default(), None),
        };
        let places = Places::find(environment)?;
        Ok(Self {
            key: project_key(root),
            root: root.to_owned(),
            places,
            folder,
            file,
            config_path,
        })
    }

    /// How to reach the engine and the world.
    pub(crate) fn sandbox(
        &self,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<SandboxConfig, Failure> {
        let is_there = |path: &Path| path.exists();
        let (engine, source) = find_engine(
            global.engine.as_ref(),
            self.file.engine.as_ref(),
            environment,
            is_there,
        )?;
        printer.note(format_args!("engine {engine}, from {source}"));
        let mut config = SandboxConfig::new(engine, &self.places.state);
        config.prefix = self.prefix();
        config.proxy_dir = environment.path("SANDBOX_PROXY_DIR");
        let UpstreamFile {
            dns,
            extra_roots,
            allow_addresses,
        } = &self.file.upstream;
        config.upstream.dns = *dns;
        config.upstream.allow_addresses.clone_from(allow_addresses);
        if let Some(path) = extra_roots {
            config.upstream.extra_roots_pem = pem(path)?;
        }
        Ok(config)
    }

    /// Likewise, for a container of the image that `image` asks for.
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

    /// What the names of all objects begin with.
    pub(crate) fn prefix(&self) -> String {
        self.file
            .prefix
            .clone()
            .unwrap_or_else(|| DEFAULT_PREFIX.to_owned())
    }

    /// The configuration that was read; `None` where there is none.
    pub(crate) fn config_path(&self) -> Option<&Path> {
        self.config_path.as_deref()
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
        let values = self
            .file
            .env
            .values()
            .map(|value| value.resolve(environment).err());
        let passed = self.file.pass_env.iter();
        let passed = passed.map(|(name, location)| passed_value(environment, name, location).err());
        let credentials = match self.file.credentials.prepare(environment) {
            Ok(secrets) => self.given_away(environment, &secrets),
            Err(faults) => faults,
        };
        let mut faults: Vec<Failure> = values
            .chain(passed)
            .flatten()
            .chain(credentials)
            .map(Failure::from)
            .collect();
        let roots = self.file.upstream.extra_roots.as_deref();
        faults.extend(roots.and_then(|path| pem(path).err()));
        faults.extend(self.image_fault());
        faults.extend(self.mount_faults());
        faults
    }

    /// A path as a reader in the project knows it.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}

fn pem(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(Failure::doing(format!("read `{}`", path.display())))?;
    if text.contains("-----BEGIN CERTIFICATE-----") {
        return Ok(text);
    }
    Err(Failure::new(format!(
        "`{}`, named by `upstream.extra_roots`, holds no certificate",
        path.display()
    ))
    .with_hint("convert it with `openssl x509 -inform der -in FILE -out FILE.pem`"))
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
        let path = dir.path().join("roots.pem");
        fs::write(&path, "binary").unwrap();
        assert!(
            pem(&path)
                .unwrap_err()
                .to_string()
                .contains("holds no certificate")
        );
        assert!(pem(Path::new("/no/such/file")).is_err());
    }
}
