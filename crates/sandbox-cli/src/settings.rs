//! What command line, environment and `sandbox.yaml` come to, decided once.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use allowlist::Allowlist;
use sandbox::{
    ContainerEnv, ExpectedProgram, ImageSource, Isolation, Mount, Network, NetworkSandboxConfig, Protection,
    ResourceLimits, SandboxConfig, SecretReplacements,
};

use crate::args::{
    ExecArgs, ExecNetwork, GlobalArgs, ImageArgs, Preset, TaskArgs, VerifyArgs, WorkspaceAccess,
};
use crate::config::{
    ConfigFile, CredentialsFile, Environment, Folder, InvalidFile, Location, Places, UpstreamFile,
    find_engine, project_key,
};
use crate::credentials;
use crate::failure::Failure;
use crate::image_context;
use crate::network_log::LogCopies;
use crate::printer::Printer;
use crate::workspace::{self, WorkspaceMode};

/// Where the work tree is mounted.
const WORKSPACE: &str = "/workspace";
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
    folder: Folder,
    file: ConfigFile,
    config_path: Option<PathBuf>,
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
                return Err(Failure::new(format!(
                    "there is no configuration at `{}`",
                    path.display()
                )));
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

    /// What the names of all objects begin with.
    pub(crate) fn prefix(&self) -> String {
        self.file
            .prefix
            .clone()
            .unwrap_or_else(|| DEFAULT_PREFIX.to_owned())
    }

    /// Where images come from.
    pub(crate) fn image(&self, args: &ImageArgs) -> Result<ImageSource, Failure> {
        if let Some(name) = &args.image {
            return Ok(ImageSource::existing(name));
        }
        if args.dockerfile.is_none()
            && args.context.is_none()
            && let Some(name) = &self.file.image
        {
            return Ok(ImageSource::existing(name));
        }
        let named = args.dockerfile.as_ref().or(self.file.dockerfile.as_ref());
        let dockerfile = named.cloned().unwrap_or_else(|| self.folder.dockerfile());
        let text = match fs::read(&dockerfile) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
                return Err(Failure::new(
                    "no image: neither --image nor `image` in the configuration names one",
                )
                .with_hint(format!(
                    "write {}, or name an image that the engine has with --image",
                    dockerfile.display()
                )));
            }
            read => read.map_err(Failure::doing(format!("read `{}`", dockerfile.display())))?,
        };
        let folder = dockerfile
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let context = args
            .context
            .clone()
            .or_else(|| self.file.context.clone())
            .unwrap_or(folder);
        Ok(ImageSource::build(text, image_context::read(&context)?))
    }

    /// What may be reached: the file named by a flag, else the project's; nothing where there is none.
    pub(crate) fn allowlist(&self, flag: Option<&Path>, printer: Printer) -> Result<Allowlist, Failure> {
        let path = flag.map_or_else(|| self.allowlist_path(), Path::to_owned);
        match self.read_allowlist(&path)? {
            Some(policy) => {
                printer.note(format_args!("allowlist from {}", path.display()));
                Ok(policy)
            }
            None if flag.is_some() => Err(Failure::new(format!(
                "there is no allowlist at `{}`",
                path.display()
            ))),
            None => {
                printer.warning(self.no_allowlist(&path));
                Ok(Allowlist::default())
            }
        }
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
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(Failure::doing(format!("read `{}`", path.display())))?,
        };
        let label = self.shown(path);
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let read = if is_json {
            Allowlist::from_json(&text, &label)
        } else {
            Allowlist::from_yaml(&text, &label)
        };
        Ok(Some(read?))
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
        let credentials = self
            .file
            .credentials
            .prepare(environment)
            .err()
            .unwrap_or_default();
        let mut faults: Vec<Failure> = values
            .chain(passed)
            .flatten()
            .chain(credentials)
            .map(Failure::from)
            .collect();
        let roots = self.file.upstream.extra_roots.as_deref();
        faults.extend(roots.and_then(|path| pem(path).err()));
        faults.extend(
            self.refuse_state_in_reach(&self.mounts(&[], WorkspaceMode::Direct, &Protection::none()))
                .err(),
        );
        faults
    }

    /// Everything that `run` and `agent` need.
    pub(crate) fn task(
        &self,
        args: &TaskArgs,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<TaskSettings, Failure> {
        let mut sandbox = self.sandbox(global, environment, printer)?;
        if let Some(seconds) = args.image.max_image_age {
            sandbox.max_image_age = Duration::from_secs(seconds);
        }
        let secrets = credentials::prepare(&self.file.credentials, environment)?;
        let env = self.env(environment, printer)?.merge(secrets.env_vars());
        let network = self.network(args, secrets.into_replacements(), environment, printer)?;
        let mut limits = self.file.resource_limits;
        limits.timeout = args.timeout.map(Duration::from_secs).or(limits.timeout);
        let protection = workspace::protection(&self.file.workspace, args.unprotected);
        let mode = args.workspace.or(self.file.workspace.mode).unwrap_or_default();
        let mounts = self.mounts(&args.mounts, mode, &protection);
        self.refuse_state_in_reach(&mounts)?;
        Ok(TaskSettings {
            root: self.root.clone(),
            protection,
            image: self.image(&args.image)?,
            sandbox,
            network,
            env,
            mounts,
            limits,
            isolation: Isolation::agent(),
            working_dir: WORKSPACE,
            logs: self.places.logs(&self.key),
            copies: LogCopies {
                file: args.network_log.clone(),
                live: args.network_log_live,
            },
            key: self.key.clone(),
        })
    }

    /// Everything that `exec` needs: nothing of the project but its image, its folder and its allowlist.
    pub(crate) fn exec(
        &self,
        args: &ExecArgs,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<TaskSettings, Failure> {
        let mut sandbox = self.sandbox(global, environment, printer)?;
        if let Some(seconds) = args.image.max_image_age {
            sandbox.max_image_age = Duration::from_secs(seconds);
        }
        let protection = workspace::protection(&self.file.workspace, args.unprotected);
        let mounts = match args.workspace {
            WorkspaceAccess::None => Vec::new(),
            WorkspaceAccess::Ro => vec![Mount::read_only_at(&self.root, WORKSPACE)],
            WorkspaceAccess::Rw => {
                vec![Mount::read_write(&self.root, WORKSPACE).protected(protection.clone())]
            }
        };
        self.refuse_state_in_reach(&mounts)?;
        let network = match args.network {
            ExecNetwork::None => Network::Disabled,
            ExecNetwork::Sandboxed => Network::Sandboxed(NetworkSandboxConfig::new(
                self.allowlist(args.allowlist.as_deref(), printer)?,
            )),
        };
        Ok(TaskSettings {
            root: self.root.clone(),
            protection,
            image: self.image(&args.image)?,
            sandbox,
            network,
            env: named_variables(&args.variables, environment)?,
            working_dir: if mounts.is_empty() { "/tmp" } else { WORKSPACE },
            mounts,
            limits: ResourceLimits {
                timeout: Some(Duration::from_secs(args.timeout)),
                ..ResourceLimits::untrusted()
            },
            isolation: Isolation::untrusted(),
            logs: self.places.logs(&self.key),
            copies: LogCopies::default(),
            key: self.key.clone(),
        })
    }

    /// Everything that `verify` needs: the project's image, network and limits, but none of its mounts, variables and secrets.
    pub(crate) fn verification(
        &self,
        args: &VerifyArgs,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<VerifySettings, Failure> {
        let mut sandbox = self.sandbox(global, environment, printer)?;
        if let Some(seconds) = args.image.max_image_age {
            sandbox.max_image_age = Duration::from_secs(seconds);
        }
        let (isolation, limits, network) = match args.isolation {
            Preset::Untrusted => (
                Isolation::untrusted(),
                ResourceLimits::untrusted(),
                Network::Disabled,
            ),
            // Nothing is permitted: the probe has nothing to ask for.
            Preset::Agent if self.is_sandboxed() => {
                let network = NetworkSandboxConfig::new(Allowlist::default());
                (
                    Isolation::agent(),
                    self.file.resource_limits,
                    Network::Sandboxed(network),
                )
            }
            Preset::Agent => (
                Isolation::agent(),
                self.file.resource_limits,
                Network::Unrestricted,
            ),
        };
        Ok(VerifySettings {
            image: self.image(&args.image)?,
            sandbox,
            isolation,
            limits,
            network,
            programs: args.programs.clone(),
        })
    }

    fn network(
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
        credentials::tell(credentials, environment, &policy, printer);
        Ok(Network::Sandboxed(
            NetworkSandboxConfig::new(policy).replacements(replacements),
        ))
    }

    /// The work tree first, unless another mount takes its place; those of the command line win over those of the file.
    fn mounts(&self, flags: &[Mount], mode: WorkspaceMode, protection: &Protection) -> Vec<Mount> {
        let mut mounts = vec![Mount::read_write(&self.root, WORKSPACE)];
        let named = self
            .file
            .mounts
            .iter()
            .cloned()
            .chain(flags.iter().map(|mount| mount.clone().relative_to(&self.root)));
        for mount in named {
            mounts.retain(|other| other.container_path() != mount.container_path());
            mounts.push(mount);
        }
        let copy_dir = self.copy_dir();
        let of_workspace = |mount: Mount| match mount.container_path() {
            WORKSPACE => workspace::mounted(mount, mode, protection.clone(), &copy_dir),
            _ => mount,
        };
        mounts.into_iter().map(of_workspace).collect()
    }

    /// Where the copy of the work tree is, where there is one.
    pub(crate) fn copy_dir(&self) -> PathBuf {
        self.places.copy(&self.key)
    }

    /// What is not applied of a copy by itself.
    pub(crate) fn protection(&self) -> Protection {
        workspace::protection(&self.file.workspace, false)
    }

    /// A task that sees the state directory has the key of the root authority.
    fn refuse_state_in_reach(&self, mounts: &[Mount]) -> Result<(), Failure> {
        let state = resolved(&self.places.state);
        let reaches = |mount: &&Mount| {
            let path = resolved(mount.host_path());
            state.starts_with(&path) || path.starts_with(&state)
        };
        match mounts.iter().find(reaches) {
            Some(mount) => Err(Failure::new(format!(
                "`{}`, mounted at {}, would show the task the sandbox's own keys in `{}`",
                mount.host_path().display(),
                mount.container_path(),
                self.places.state.display()
            ))
            .with_hint(
                "run in the project's own folder, or point XDG_STATE_HOME outside of what is mounted",
            )),
            None => Ok(()),
        }
    }

    fn env(&self, environment: &Environment, printer: Printer) -> Result<ContainerEnv, Failure> {
        let mut variables = BTreeMap::new();
        for (name, setting) in &self.file.env {
            variables.insert(name.clone(), setting.resolve(environment)?.expose().to_owned());
        }
        for (name, location) in &self.file.pass_env {
            match passed_value(environment, name, location)? {
                None => printer.note(format_args!("pass_env: `{name}` is not set")),
                Some(value) => drop(variables.insert(name.clone(), value.to_owned())),
            }
        }
        Ok(ContainerEnv::new(variables))
    }

    /// A path as a reader in the project knows it.
    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}

/// The value of a variable that is passed on as it is; `None` where it is not set.
fn passed_value<'a>(
    environment: &'a Environment,
    name: &str,
    location: &Location,
) -> Result<Option<&'a str>, InvalidFile> {
    let not_text = || {
        InvalidFile::new(
            location,
            format!("the value of the variable `{name}` is not UTF-8"),
        )
    };
    let value = environment.exact(name);
    value.map(|value| value.to_str().ok_or_else(not_text)).transpose()
}

/// What `run` and `agent` need.
#[derive(Debug)]
pub(crate) struct TaskSettings {
    pub(crate) sandbox: SandboxConfig,
    pub(crate) image: ImageSource,
    pub(crate) network: Network,
    pub(crate) env: ContainerEnv,
    pub(crate) mounts: Vec<Mount>,
    /// The work tree.
    pub(crate) root: PathBuf,
    /// What is protected in it.
    pub(crate) protection: Protection,
    pub(crate) limits: ResourceLimits,
    pub(crate) isolation: Isolation,
    pub(crate) working_dir: &'static str,
    /// Where the folders of this project's runs are.
    pub(crate) logs: PathBuf,
    pub(crate) copies: LogCopies,
    /// The project.
    pub(crate) key: String,
}

/// What `verify` is about.
#[derive(Debug)]
pub(crate) struct VerifySettings {
    pub(crate) sandbox: SandboxConfig,
    pub(crate) image: ImageSource,
    pub(crate) isolation: Isolation,
    pub(crate) limits: ResourceLimits,
    pub(crate) network: Network,
    pub(crate) programs: Vec<ExpectedProgram>,
}

impl TaskSettings {
    /// Whether there is a proxy, and so a log.
    pub(crate) fn has_proxy(&self) -> bool {
        matches!(self.network, Network::Sandboxed(_))
    }
}

/// The variables of `--env`: with a value, or ours of that name.
fn named_variables(named: &[String], environment: &Environment) -> Result<ContainerEnv, Failure> {
    let one = |named: &String| match named.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match environment.text(named) {
            Some(value) => Ok((named.clone(), value.to_owned())),
            None => Err(Failure::new(format!(
                "the variable `{named}`, named by --env, is not set"
            ))),
        },
    };
    named
        .iter()
        .map(one)
        .collect::<Result<Vec<_>, _>>()
        .map(ContainerEnv::from_iter)
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

/// The path without symbolic links, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let there = path
        .ancestors()
        .find_map(|part| Some((part, part.canonicalize().ok()?)));
    match there {
        Some((part, real)) => real.join(path.strip_prefix(part).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(root: &Path, state: &Path) -> Project {
        Project {
            root: root.to_owned(),
            key: "key".to_owned(),
            places: Places {
                state: state.to_owned(),
            },
            folder: Folder::of(root),
            file: ConfigFile::default(),
            config_path: None,
        }
    }

    #[test]
    fn the_default_prefix_is_that_of_the_library() {
        let config = SandboxConfig::new(sandbox::EngineAddress::unix("/x"), "/y");
        assert_eq!(config.prefix, DEFAULT_PREFIX);
    }

    fn image_args() -> ImageArgs {
        ImageArgs {
            image: None,
            dockerfile: None,
            context: None,
            max_image_age: None,
        }
    }

    #[test]
    fn the_work_tree_is_mounted_unless_something_else_takes_its_place() {
        let mut project = project(Path::new("/srv/app"), Path::new("/state"));
        project.file.mounts = vec!["/data:/data".parse().unwrap()];
        let mounts = |flags: &[&str]| {
            let flags: Vec<Mount> = flags.iter().map(|flag| flag.parse().unwrap()).collect();
            let mounts = project.mounts(&flags, WorkspaceMode::Direct, &Protection::default());
            mounts
                .iter()
                .map(|mount| format!("{}:{}", mount.host_path().display(), mount.container_path()))
                .collect::<Vec<_>>()
        };
        assert_eq!(mounts(&[]), ["/srv/app:/workspace", "/data:/data"]);
        assert_eq!(
            mounts(&["sub:/workspace"]),
            ["/data:/data", "/srv/app/sub:/workspace"]
        );
        assert_eq!(
            mounts(&["/other:/data:ro"]),
            ["/srv/app:/workspace", "/other:/data"]
        );
    }

    #[test]
    fn a_task_never_sees_the_state_directory() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let state = home.join(".local/state/sandbox");
        let app = home.join("app");
        fs::create_dir(&app).unwrap();
        for (mounted, good) in [
            (home.clone(), false),
            (state.join("logs"), false),
            (app, true),
            (home.join(".local"), false),
        ] {
            let mounts = [Mount::read_only_at(&mounted, "/x")];
            let refused = project(&home, &state).refuse_state_in_reach(&mounts);
            assert_eq!(refused.is_ok(), good, "{}", mounted.display());
        }
    }

    #[test]
    fn an_image_comes_from_a_flag_the_file_or_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let mut project = project(root.path(), Path::new("/state"));
        let error = project.image(&image_args()).unwrap_err();
        assert!(error.hint().unwrap().contains("container/Dockerfile"), "{error}");

        fs::create_dir_all(root.path().join(".sandbox/container")).unwrap();
        fs::write(root.path().join(".sandbox/container/Dockerfile"), "FROM a").unwrap();
        fs::write(root.path().join(".sandbox/container/file"), "x").unwrap();
        let files = BTreeMap::from([("file".to_owned(), b"x".to_vec())]);
        assert_eq!(
            project.image(&image_args()).unwrap(),
            ImageSource::build("FROM a", files)
        );

        project.file.image = Some("from-the-file".to_owned());
        assert_eq!(
            project.image(&image_args()).unwrap(),
            ImageSource::existing("from-the-file")
        );
        let flag = ImageArgs {
            image: Some("from-the-flag".to_owned()),
            ..image_args()
        };
        assert_eq!(
            project.image(&flag).unwrap(),
            ImageSource::existing("from-the-flag")
        );
        let dockerfile = root.path().join(".sandbox/container/Dockerfile");
        let flag = ImageArgs {
            dockerfile: Some(dockerfile),
            ..image_args()
        };
        assert!(matches!(project.image(&flag).unwrap(), ImageSource::Build { .. }));
    }

    #[test]
    fn a_surrogate_wins_and_the_values_go_to_the_proxy() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".sandbox")).unwrap();
        let config = "image: x\nenv: {A: a, B: !env ELSEWHERE}\npass_env: [B, C, NOT_SET]\nmasked_secrets: {TOKEN: {scopes: [a.example], headers: [x]}}\n";
        fs::write(root.path().join(".sandbox/sandbox.yaml"), config).unwrap();
        let environment = Environment::from([
            ("HOME", "/no/such/home"),
            ("ELSEWHERE", "b"),
            ("B", "passed"),
            ("C", "c"),
            ("TOKEN", "hunter2-hunter2-hunter2"),
        ]);
        let global = GlobalArgs {
            engine: Some(sandbox::EngineAddress::unix("/x")),
            config: None,
            verbose: 0,
        };
        let args = TaskArgs {
            image: image_args(),
            allowlist: None,
            timeout: None,
            mounts: Vec::new(),
            workspace: None,
            unprotected: false,
            network_log: None,
            network_log_live: false,
            log: None,
        };
        let printer = Printer::new(0, true);
        let load = |environment: &Environment| {
            Project::load_at(root.path(), None, environment, printer)?.task(
                &args,
                &global,
                environment,
                printer,
            )
        };
        let settings = load(&environment).unwrap();
        let variables = settings.env.variables();
        let given = |name: &str| variables.get(name).map(String::as_str);
        assert_eq!(
            (given("A"), given("B"), given("C")),
            (Some("a"), Some("passed"), Some("c"))
        );
        assert_eq!(given("NOT_SET"), None);
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert!(given("TOKEN").is_some_and(|surrogate| !surrogate.contains("hunter2")));
        let Network::Sandboxed(network) = &settings.network else {
            panic!("{:?}", settings.network)
        };
        assert_ne!(network, &NetworkSandboxConfig::new(network.allowlist().clone()));

        let failure = load(&Environment::from([("HOME", "/no/such/home")])).unwrap_err();
        assert_eq!(failure.status().code(), 125);
        assert!(
            failure
                .to_string()
                .starts_with(".sandbox/sandbox.yaml:4:18: the variable `TOKEN` is not set"),
            "{failure}"
        );
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
