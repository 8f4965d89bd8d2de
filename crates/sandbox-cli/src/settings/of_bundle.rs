//! The settings of a run of a bundle. The bundle decides, within the policies and limits of this host.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sandbox::credentials::PreparedSecrets;
use sandbox::host_path::Resolver;
use sandbox::workspace::{GitIdentity, Protection};
use sandbox::{
    ByteSize, ContainerEnv, Cpus, ImageSource, Isolation, Mount, Network, NetworkSandboxConfig,
    ResourceLimits, SandboxConfig,
};
use sandbox_bundle::{Bundle, Limits, Settings, Variable};

use super::project::{engine, roots, upstream};
use super::{TaskSettings, WORKSPACE};
use crate::args::GlobalArgs;
use crate::config::{ConfigFile, CredentialsFile, Environment, OuterFiles, Places, WorkspaceMode, user_file};
use crate::credentials::{self, Prepared};
use crate::failure::Failure;
use crate::network_log::LogCopies;
use crate::printer::Printer;
use crate::telemetry::Collector;

/// Digits of a bundle's digest in the name of the folder of its runs.
const SHORT: usize = 12;

/// The folders of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BundleFolders<'a> {
    pub(crate) places: &'a Places,
    /// The unpacked tree, which remains unchanged.
    pub(crate) tree: &'a Path,
    /// The copy that the command works on.
    pub(crate) copy: &'a Path,
}

impl TaskSettings {
    /// The settings of a run of `bundle`, which takes the variables in `given`.
    ///
    /// # Errors
    ///
    /// If a variable that it needs is not set or reveals a secret, or settings of this host are not
    /// valid.
    pub(crate) async fn of_bundle(
        bundle: &Bundle,
        folders: BundleFolders<'_>,
        given: &Environment,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let BundleFolders { places, tree, copy } = folders;
        let settings = &bundle.manifest.settings;
        let resolver = places.resolver_without_tree()?;
        let user = user_settings(&resolver, environment)?;
        let outer = OuterFiles::find(environment).read(&resolver)?;
        let policy = settings.policy.clone().within_all(outer);
        let credentials = CredentialsFile::of_bundle(settings);
        let prepared = credentials::prepare(&credentials, None, given, &resolver).await?;
        let Prepared { secrets, .. } = prepared;
        let network = NetworkSandboxConfig::new(policy).replacements(secrets.replacements().clone());
        let engine = engine(global, user.engine.as_ref(), environment, printer)?;
        let mut sandbox = SandboxConfig::new(engine, &places.state).on_demand();
        if let Some(prefix) = user.prefix {
            sandbox.prefix = prefix;
        }
        sandbox.proxy_dir = environment.path("SANDBOX_PROXY_DIR");
        // Those of a bundle could lead an allowed name to another server, and open this host's networks.
        sandbox.upstream = upstream(&user.upstream, |path| {
            let (found, roots) = roots(&resolver, path)?;
            if found.is_untrusted() { Err(written_by_a_task(path)) } else { Ok(roots) }
        })?;
        let key: String = "bundle-".chars().chain(bundle.digest.to_string().chars().take(SHORT)).collect();
        Ok(Self {
            sandbox,
            image: ImageSource::existing(&settings.image),
            network: Network::Sandboxed(network),
            policy_source: None,
            env: variables(settings, given, &secrets)?.merge(secrets.env_vars()),
            mounts: vec![Mount::copy_on_write(tree, WORKSPACE, copy)],
            root: tree.to_owned(),
            is_bundle: true,
            workspace: WorkspaceMode::Copy,
            // Who applies the result decides.
            protection: Protection::none(),
            limits: limits(&settings.limits, user.resource_limits)?,
            isolation: Isolation::agent(),
            working_dir: settings.working_dir.clone(),
            agent_program: None,
            questions: None,
            renewal: None,
            git_identity: GitIdentity::default(),
            state_files: Vec::new(),
            ssh: None,
            logs: places.logs(&key),
            copies: LogCopies::default(),
            telemetry: Collector::of(environment, printer),
            resolver,
            key,
        })
    }
}

/// The user's own settings.
fn user_settings(resolver: &Resolver, environment: &Environment) -> Result<ConfigFile, Failure> {
    let Some(path) = user_file(environment) else { return Ok(ConfigFile::default()) };
    match ConfigFile::read_user(resolver, &path)? {
        None => Ok(ConfigFile::default()),
        Some((file, found, _)) if !found.is_untrusted() => Ok(file),
        Some(_) => Err(written_by_a_task(&path)),
    }
}

fn written_by_a_task(path: &Path) -> Failure {
    Failure::new(format!("a task could have written `{}`, which counts for bundles", path.display()))
        .with_hint("move it out of the folders that tasks write to")
}

/// The variables of the task except for those with surrogates. None may reveal a secret.
fn variables(
    settings: &Settings,
    environment: &Environment,
    secrets: &PreparedSecrets,
) -> Result<ContainerEnv, Failure> {
    let mut variables = BTreeMap::new();
    for (name, variable) in &settings.variables {
        let shown = |name: &str| format!("the variable `{}`", name.escape_debug());
        let value = match variable {
            Variable::Value(value) => value.as_str(),
            Variable::Required(from) => {
                let value = environment.text(from.as_str());
                value.ok_or_else(|| {
                    Failure::new(format!("{}, which the bundle needs, is not set", shown(from.as_str())))
                })?
            }
            Variable::IfSet(otherwise) => match (environment.exact(name.as_str()), otherwise) {
                (Some(value), _) => value
                    .to_str()
                    .ok_or_else(|| Failure::new(format!("{} is not UTF-8", shown(name.as_str()))))?,
                (None, Some(otherwise)) => otherwise,
                (None, None) => continue,
            },
            Variable::Masked(_) => continue,
        };
        if secrets.replacements().surrogate_of(value).is_some() {
            let problem = format!("{} contains a secret of the bundle", shown(name.as_str()));
            return Err(Failure::new(problem).with_hint("the task must get only the surrogate"));
        }
        variables.insert(name.as_str().to_owned(), value.to_owned());
    }
    Ok(ContainerEnv::new(variables))
}

/// The smaller of the bundle's limits and those of the user.
fn limits(bundle: &Limits, user: ResourceLimits) -> Result<ResourceLimits, Failure> {
    let Limits { timeout, memory, nano_cpus, pids, disk } = bundle;
    let cpus = nano_cpus.map(|nano| {
        // As text, because the number may be too large for exact arithmetic.
        format!("{}.{:09}", nano / 1_000_000_000, nano % 1_000_000_000).parse::<Cpus>()
    });
    let mut limits = user;
    limits.timeout = smaller(timeout.map(Duration::from_secs), user.timeout);
    limits.memory = smaller(memory.map(ByteSize::new), user.memory);
    limits.cpus = smaller(cpus.transpose()?, user.cpus);
    limits.pids = smaller(*pids, user.pids);
    limits.disk = smaller(disk.map(ByteSize::new), user.disk);
    Ok(limits)
}

fn smaller<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other < one { other } else { one }),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sandbox_bundle::{Snapshot, Task, VariableName};
    use sandbox_files::tree::Tree;

    use super::*;

    const TOKEN: &str = "hunter2-hunter2-hunter2";

    fn name(text: &str) -> VariableName {
        text.to_owned().try_into().unwrap()
    }

    fn settings() -> Settings {
        let rule = |text: &str| text.parse::<allowlist::Rule>().unwrap();
        let injection = sandbox_credentials::Injection {
            scopes: vec![allowlist::HostPattern::new("a.example").unwrap()],
            headers: vec![sandbox_credentials::HeaderPattern::new("x").unwrap()],
            ..sandbox_credentials::Injection::default()
        };
        Settings {
            task: Task::Command(vec!["make".to_owned()]),
            working_dir: "/workspace/src".to_owned(),
            image: "localhost/x:1".to_owned(),
            variables: [
                (name("A"), Variable::Value("a".to_owned())),
                (name("B"), Variable::Required(name("ELSEWHERE"))),
                (name("C"), Variable::IfSet(None)),
                (name("D"), Variable::IfSet(Some("d".to_owned()))),
                (name("TOKEN"), Variable::Masked(injection)),
            ]
            .into(),
            limits: Limits { timeout: Some(60), nano_cpus: Some(1_500_000_000), ..Limits::default() },
            policy: allowlist::Allowlist::new([rule("a.example"), rule("b.example")]),
            ..Settings::default()
        }
    }

    /// A user's folders, on a host that runs bundles.
    struct Host {
        folder: tempfile::TempDir,
    }

    impl Host {
        fn new() -> Self {
            let host = Self { folder: tempfile::tempdir().unwrap() };
            fs::create_dir_all(host.folder.path().join("config/sandbox")).unwrap();
            fs::create_dir(host.folder.path().join("tree")).unwrap();
            host
        }

        fn write(&self, file: &str, text: &str) {
            fs::write(self.folder.path().join("config/sandbox").join(file), text).unwrap();
        }

        async fn task(&self, settings: &Settings, set: &[(&str, &str)]) -> Result<TaskSettings, String> {
            let path = |name: &str| self.folder.path().join(name).display().to_string();
            let (config, state) = (path("config"), path("state"));
            let places = [("XDG_CONFIG_HOME", config.as_str()), ("XDG_STATE_HOME", state.as_str())];
            let environment: Environment = places.into_iter().chain(set.iter().copied()).collect();
            let global = GlobalArgs {
                color: clap::ColorChoice::Auto,
                raw_terminal: false,
                engine: Some(sandbox::EngineAddress::unix("/x")),
                config: None,
                trust: None,
                owner: false,
                task: None,
                quiet: false,
                verbose: 0,
            };
            let mut bytes = Vec::new();
            let tree = self.folder.path().join("tree");
            let snapshot = Tree::open(&tree).unwrap();
            Snapshot::read(&snapshot, []).unwrap().write(&mut bytes, settings).unwrap();
            let bundle = Bundle::read(&bytes[..]).unwrap();
            let places = Places::find(&environment).unwrap();
            let copy = places.state.join("copy");
            let folders = BundleFolders { places: &places, tree: &tree, copy: &copy };
            let task = TaskSettings::of_bundle(
                &bundle,
                folders,
                &environment,
                &global,
                &environment,
                Printer::new(0, true),
            )
            .await;
            task.map_err(|failure| failure.to_string())
        }
    }

    const SET: [(&str, &str); 3] = [("ELSEWHERE", "b"), ("D", "set"), ("TOKEN", TOKEN)];

    #[tokio::test]
    async fn variables_are_those_of_this_host_and_secrets_have_surrogates() {
        let host = Host::new();
        let task = host.task(&settings(), &SET).await.unwrap();
        let variables = task.env.variables();
        let given = |name: &str| variables.get(name).map(String::as_str);
        assert_eq!(
            (given("A"), given("B"), given("C"), given("D")),
            (Some("a"), Some("b"), None, Some("set"))
        );
        assert!(given("TOKEN").is_some_and(|surrogate| !surrogate.contains("hunter2")));
        assert!(!format!("{task:?}").contains("hunter2"));
        let [mount] = &task.mounts[..] else { panic!("{:?}", task.mounts) };
        assert!(mount.copy_dir().is_some() && mount.container_path() == "/workspace");
        assert_eq!((task.working_dir.as_str(), task.is_bundle), ("/workspace/src", true));
        let error = host.task(&settings(), &SET[1..]).await.unwrap_err();
        assert_eq!(error, "the variable `ELSEWHERE`, which the bundle needs, is not set");
        let error = host.task(&settings(), &SET[..2]).await.unwrap_err();
        assert!(error.contains("the variable `TOKEN` is not set"), "{error}");
    }

    #[tokio::test]
    async fn variable_that_reveals_a_secret_is_refused() {
        let host = Host::new();
        for (variable, value) in [("ELSEWHERE", TOKEN), ("C", "x-hunter2-hunter2-hunter2")] {
            let set: Vec<_> = SET.into_iter().filter(|(name, _)| *name != variable).collect();
            let error = host.task(&settings(), &[&set[..], &[(variable, value)]].concat()).await.unwrap_err();
            assert!(error.contains("contains a secret of the bundle"), "{variable}: {error}");
            let other = [&set[..], &[(variable, "other")]].concat();
            assert!(host.task(&settings(), &other).await.is_ok(), "the control");
        }
    }

    #[tokio::test]
    async fn policies_of_this_host_narrow_that_of_the_bundle() {
        let host = Host::new();
        let is_allowed = |task: &TaskSettings, url: &str| {
            let Network::Sandboxed(network) = &task.network else { panic!("{:?}", task.network) };
            network.allowlist().judge("GET", url).is_allowed()
        };
        let task = host.task(&settings(), &SET).await.unwrap();
        assert!(is_allowed(&task, "https://b.example/"), "the control");
        host.write("policy.yaml", "domains: [a.example, c.example]");
        let task = host.task(&settings(), &SET).await.unwrap();
        assert!(is_allowed(&task, "https://a.example/"));
        assert!(!is_allowed(&task, "https://b.example/"), "the host does not permit it");
        assert!(!is_allowed(&task, "https://c.example/"), "the bundle does not permit it");
        host.write("policy.yaml", "domains: [");
        assert!(host.task(&settings(), &SET).await.is_err());
    }

    #[tokio::test]
    async fn smaller_limits_count_and_other_settings_of_the_user_do_not() {
        let host = Host::new();
        let limits = host.task(&settings(), &SET).await.unwrap().limits;
        assert_eq!((limits.timeout, limits.memory), (Some(Duration::from_mins(1)), None), "the control");
        assert_eq!(limits.cpus.map(Cpus::nano), Some(1_500_000_000));
        host.write(
            "sandbox.yaml",
            "resource_limits: {timeout: 2m, memory: 1g, cpus: 1}\nenv: {OF_USER: x}\nprefix: other\n",
        );
        let task = host.task(&settings(), &SET).await.unwrap();
        let limits = task.limits;
        assert_eq!((limits.timeout, limits.memory), (Some(Duration::from_mins(1)), Some(ByteSize::gib(1))));
        assert_eq!(limits.cpus.map(Cpus::nano), Some(1_000_000_000));
        assert_eq!(task.sandbox.prefix, "other");
        assert!(task.sandbox.upstream.dns.is_none());
        assert!(!task.env.variables().contains_key("OF_USER"));
    }

    #[tokio::test]
    async fn upstream_settings_are_those_of_this_host() {
        let host = Host::new();
        let pem = "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n";
        host.write("roots.pem", pem);
        host.write(
            "sandbox.yaml",
            "upstream: {dns: 192.0.2.53, allow_addresses: [10.20.0.0/16], extra_roots: roots.pem}\n",
        );
        let upstream = host.task(&settings(), &SET).await.unwrap().sandbox.upstream;
        assert_eq!(upstream.dns.map(|dns| dns.to_string()).as_deref(), Some("192.0.2.53:53"));
        assert_eq!((upstream.allow_addresses.len(), upstream.extra_roots_pem.as_str()), (1, pem));
    }
}
