//! The settings of `run`, `agent` and `exec`.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use allowlist::{Rule, RuleChange};
use sandbox::host_path::Resolver;
use sandbox::workspace::{GitIdentity, Protection};
use sandbox::{
    Agent, ContainerEnv, ImageSource, Isolation, Mount, Network, NetworkSandboxConfig, ResourceLimits,
    SandboxConfig,
};

use super::defaults::login_of;
use super::mounts::with_mounts;
use super::variables::named_variables;
use super::{Project, SshSettings, TrustedProject, WORKSPACE};
use crate::args::{ExecArgs, ExecNetwork, GlobalArgs, OnceArgs, PolicyArgs, TaskArgs, WorkspaceAccess};
use crate::config::{Environment, PolicySource, WorkspaceMode};
use crate::credentials::{self, AgentLogin, Prepared, Renewal, StateFile};
use crate::failure::Failure;
use crate::network_log::LogCopies;
use crate::printer::Printer;
use crate::questions::{AskProgram, Board, has_terminal};
use crate::telemetry::Collector;

/// The settings of `run`, `agent` and `exec`.
#[derive(Debug)]
pub(crate) struct TaskSettings {
    pub(crate) sandbox: SandboxConfig,
    pub(crate) image: ImageSource,
    pub(crate) network: Network,
    /// `None` if its policy is not from a file.
    pub(crate) policy_source: Option<PolicySource>,
    pub(crate) env: ContainerEnv,
    pub(crate) mounts: Vec<Mount>,
    /// The work tree.
    pub(crate) root: PathBuf,
    /// Whether it runs a bundle: its copy becomes a result, and is never applied.
    pub(crate) is_bundle: bool,
    /// Whether the task works on the work tree itself.
    pub(crate) workspace: WorkspaceMode,
    /// The protection of the work tree.
    pub(crate) protection: Protection,
    pub(crate) limits: ResourceLimits,
    pub(crate) isolation: Isolation,
    /// In the container.
    pub(crate) working_dir: String,
    /// The agent's program on the host, if no flag names one.
    pub(crate) agent_program: Option<PathBuf>,
    /// The questions to the operator, with `--ask`.
    pub(crate) questions: Option<Board>,
    /// The renewal of values while it runs.
    pub(crate) renewal: Option<Renewal>,
    /// The identity for git commits.
    pub(crate) git_identity: GitIdentity,
    /// The files of the agent's login, with surrogates.
    pub(crate) state_files: Vec<StateFile>,
    /// The SSH keys that git signs with.
    pub(crate) ssh: Option<SshSettings>,
    /// The folder of this project's runs.
    pub(crate) logs: PathBuf,
    pub(crate) copies: LogCopies,
    /// The collector of its telemetry.
    pub(crate) telemetry: Option<Collector>,
    /// Opens paths that flags name.
    pub(crate) resolver: Resolver,
    /// The project.
    pub(crate) key: String,
}

impl TaskSettings {
    /// Whether there is a proxy, and therefore a log.
    pub(crate) fn has_proxy(&self) -> bool {
        matches!(self.network, Network::Sandboxed(_))
    }
}

impl TrustedProject {
    /// The settings of `run` and `agent`. An agent with support for logins gets the one in the
    /// configuration.
    pub(crate) async fn task(
        &self,
        args: &TaskArgs,
        default_mode: WorkspaceMode,
        agent: Option<&Agent>,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<TaskSettings, Failure> {
        let mut sandbox = self.sandbox_for(&args.image, global, environment, printer)?;
        sandbox.remove_at_shutdown = !args.wait;
        let mode = args.workspace.or(self.file.workspace).unwrap_or(default_mode);
        if mode == WorkspaceMode::Direct {
            self.settle_apply()?;
        }
        let own = self.mounts(&args.mounts, mode, args.unprotected);
        let count = own.len();
        let mounts = self.with_repository(own)?;
        self.check_mounts(&mounts, Some(&sandbox.engine), args.allow_system_mounts)?;
        let resolver = self.resolver_with(&mounts);
        let login = match agent.and_then(login_of).filter(|_| self.is_sandboxed()) {
            Some(kind) => {
                AgentLogin::of(&self.file.credentials, kind, environment, self.places.logins(), &resolver)?
            }
            None => None,
        };
        let prepared = credentials::prepare(&self.file.credentials, login, environment, &resolver).await?;
        let Prepared { secrets, state_files, renewal } = prepared;
        if let Some(given_away) = self.given_away(environment, &secrets).into_iter().next() {
            return Err(given_away.into());
        }
        let flags = Project::flag_variables(&args.once.variables, environment, &secrets)?;
        let env = self.env(environment, printer)?.merge(flags.variables()).merge(secrets.env_vars());
        self.report_defaults(args, printer)?;
        let mut network = self.network(args, secrets.replacements().clone(), environment, printer)?;
        let questions = args.ask.then(|| self.questions(args, &mounts, global, environment, printer));
        let questions = questions.transpose()?;
        if let (Network::Sandboxed(config), Some(board)) = (&mut network, &questions) {
            let board = board.clone();
            *config = config.clone().ask(move |question| board.clone().ask(question));
            if let Some(time) = args.ask_timeout {
                *config = config.clone().ask_timeout(time);
            }
        }
        let protection = self.protection(args.unprotected);
        self.warn_of_git_credentials(mounts.get(count).map(Mount::host_path), printer);
        Ok(TaskSettings {
            root: self.root.clone(),
            is_bundle: false,
            workspace: mode,
            protection,
            image: self.image(&args.image)?,
            sandbox,
            network,
            policy_source: Some(self.policy_source(global, args.policy.allowlist.as_deref())?),
            env,
            mounts,
            limits: limits(&args.once, self.file.resource_limits),
            isolation: Isolation::agent(),
            working_dir: self.working_dir(args.once.workdir.as_deref())?,
            questions,
            agent_program: self.defaults.program.clone(),
            git_identity: self.git_identity(environment),
            ssh: self.ssh(environment, &resolver)?,
            logs: self.logs(),
            renewal: renewal.filter(|_| self.is_sandboxed()),
            state_files,
            copies: LogCopies { file: args.network_log.clone(), live: args.network_log_live },
            telemetry: Collector::of(environment, printer),
            resolver: self.resolver.clone(),
            key: self.key.clone(),
        })
    }

    /// The board for the questions of a run. It must be possible to answer them.
    fn questions(
        &self,
        args: &TaskArgs,
        mounts: &[Mount],
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Board, Failure> {
        let program = self.file.ask.clone().map(|ask| {
            let (places, root, mounts) = (self.places.clone(), self.root.clone(), mounts.to_vec());
            let environment = environment.clone();
            // Other tasks may have got more folders meanwhile.
            let trusted = move || {
                let resolver = with_mounts(places.resolver(&root)?, &mounts);
                Ok(ask.trusted(&environment, &resolver)?)
            };
            trusted()?;
            Ok::<_, Failure>(AskProgram::new(trusted, self.root.display().to_string(), printer))
        });
        let program = program.transpose()?;
        if !global.owner && program.is_none() && !has_terminal() {
            return Err(Failure::usage("--ask needs a terminal, or `ask` in sandbox.yaml")
                .with_hint("use -d and answer in `sandbox watch`, or omit --ask"));
        }
        let source = self.policy_source(global, args.policy.allowlist.as_deref())?;
        let (root, environment) = (self.root.clone(), environment.clone());
        let keep = move |rule: &Rule| {
            let change = RuleChange::Allow(rule.clone());
            match Project::change_rule_of_run(&source, &root, &environment, &change, printer) {
                Ok(mut changed) if changed.is_changed() => {
                    changed.remarks().print(printer);
                    for line in changed.lines(printer) {
                        printer.message(line);
                    }
                }
                Ok(_) => {}
                Err(failure) => printer.warning(format_args!(
                    "the rule applies to this run only, because writing it failed: {failure}: {}",
                    failure.causes().join(": ")
                )),
            }
        };
        Ok(Board::new(keep, program))
    }

    /// The settings of `exec`: of the project, only its image, its folder and its allowlist.
    pub(crate) fn exec(
        &self,
        args: &ExecArgs,
        global: &GlobalArgs,
        environment: &Environment,
        printer: Printer,
    ) -> Result<TaskSettings, Failure> {
        let sandbox = self.sandbox_for(&args.image, global, environment, printer)?;
        let protection = self.protection(args.unprotected);
        let mounts = match args.workspace {
            WorkspaceAccess::None => Vec::new(),
            // In read-only mounts, sockets are covered.
            WorkspaceAccess::Ro => {
                vec![Mount::read_only_at(&self.root, WORKSPACE).protected(protection.clone())]
            }
            WorkspaceAccess::Rw => {
                self.settle_apply()?;
                vec![Mount::read_write(&self.root, WORKSPACE).protected(protection.clone())]
            }
        };
        self.check_mounts(&mounts, Some(&sandbox.engine), args.allow_system_mounts)?;
        let network = match args.network {
            ExecNetwork::None => Network::Disabled,
            ExecNetwork::Sandboxed => Network::Sandboxed(NetworkSandboxConfig::new(
                self.allowlist(&PolicyArgs::of_file(args.allowlist.as_deref()), printer)?,
            )),
        };
        Ok(TaskSettings {
            root: self.root.clone(),
            is_bundle: false,
            workspace: WorkspaceMode::Direct,
            protection,
            image: self.image(&args.image)?,
            sandbox,
            network,
            policy_source: Some(self.policy_source(global, args.allowlist.as_deref())?),
            env: named_variables(&args.variables, environment)?,
            working_dir: if mounts.is_empty() { "/tmp".to_owned() } else { self.working_dir(None)? },
            agent_program: None,
            mounts,
            limits: ResourceLimits::untrusted().timeout(args.timeout),
            isolation: Isolation::untrusted(),
            git_identity: GitIdentity::default(),
            ssh: None,
            logs: self.logs(),
            questions: None,
            renewal: None,
            state_files: Vec::new(),
            copies: LogCopies::default(),
            telemetry: Collector::of(environment, printer),
            resolver: self.resolver.clone(),
            key: self.key.clone(),
        })
    }
}

impl Project {
    /// Whether the work tree's folder belongs to root and only root can write to it.
    pub(crate) fn belongs_to_root(&self) -> bool {
        std::fs::metadata(&self.root).is_ok_and(|facts| facts.uid() == 0 && facts.mode() & 0o002 == 0)
    }
}

/// The limits of the flags, otherwise those of the configuration.
pub(super) fn limits(flags: &OnceArgs, mut limits: ResourceLimits) -> ResourceLimits {
    limits.timeout = flags.timeout.or(limits.timeout);
    limits.memory = flags.memory.or(limits.memory);
    limits.cpus = flags.cpus.or(limits.cpus);
    limits.pids = flags.pids.or(limits.pids);
    limits
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Needs;
    use super::super::fixtures::image_args;
    use super::*;
    use crate::trust::Trust;

    const CONFIG: &str = "image: x\nenv: {A: a, B: !env ELSEWHERE}\npass_env: [B, C, NOT_SET]\nmasked_secrets: {TOKEN: {scopes: [a.example], headers: [x]}}\n";
    const TOKEN: &str = "hunter2-hunter2-hunter2";

    /// A folder with [`CONFIG`].
    fn folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".sandbox")).unwrap();
        fs::write(root.path().join(".sandbox/sandbox.yaml"), CONFIG).unwrap();
        root
    }

    fn environment() -> Environment {
        Environment::from([
            ("HOME", "/no/such/home"),
            ("ELSEWHERE", "b"),
            ("B", "passed"),
            ("C", "c"),
            ("TOKEN", TOKEN),
        ])
    }

    fn project(root: &tempfile::TempDir, environment: &Environment) -> TrustedProject {
        let printer = Printer::new(0, true);
        let project = Project::load_at(root.path(), None, environment, printer).unwrap();
        let needs = Needs { image: Some(&image_args()), allowlist: None };
        project.trusted(Some(needs), &Trust::Now, printer).unwrap()
    }

    async fn task(project: &TrustedProject, environment: &Environment) -> Result<TaskSettings, Failure> {
        task_with(&[], project, environment).await
    }

    /// With these variables of `--env`.
    async fn task_with(
        once: &[&str],
        project: &TrustedProject,
        environment: &Environment,
    ) -> Result<TaskSettings, Failure> {
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
        let args = TaskArgs {
            image: image_args(),
            policy: PolicyArgs::default(),
            audit: false,
            ask: false,
            ask_timeout: None,
            once: OnceArgs {
                variables: once.iter().map(|&named| named.to_owned()).collect(),
                ..OnceArgs::default()
            },
            wait: false,
            allow_system_mounts: false,
            mounts: Vec::new(),
            workspace: None,
            worktree: None,
            unprotected: false,
            network_log: None,
            network_log_live: false,
            log: None,
        };
        project.task(&args, WorkspaceMode::Direct, None, &global, environment, Printer::new(0, true)).await
    }

    #[tokio::test]
    async fn task_gets_surrogates_and_proxy_gets_values() {
        let (root, environment) = (folder(), environment());
        let settings = task(&project(&root, &environment), &environment).await.unwrap();
        let variables = settings.env.variables();
        let given = |name: &str| variables.get(name).map(String::as_str);
        assert_eq!((given("A"), given("B"), given("C")), (Some("a"), Some("passed"), Some("c")));
        assert_eq!(given("NOT_SET"), None);
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert!(given("TOKEN").is_some_and(|surrogate| !surrogate.contains("hunter2")));
        let Network::Sandboxed(network) = &settings.network else { panic!("{:?}", settings.network) };
        assert_ne!(network, &NetworkSandboxConfig::new(network.allowlist().clone()));
    }

    #[tokio::test]
    async fn flag_overrides_the_file_and_reveals_no_secret() {
        let (root, environment) = (folder(), environment());
        let project = project(&root, &environment);
        let settings = task_with(&["A=flag", "C"], &project, &environment).await.unwrap();
        let variables = settings.env.variables();
        assert_eq!((variables["A"].as_str(), variables["C"].as_str()), ("flag", "c"));
        for (flag, message) in [
            ("TOKEN", "`TOKEN`, named by --env, is masked: the task gets a surrogate of it"),
            ("TOKEN=other", "`TOKEN`, named by --env, is masked: the task gets a surrogate of it"),
            (
                "X=hunter2-hunter2-hunter2",
                "`X`, named by --env, contains a secret that the task has a surrogate of, as `TOKEN`",
            ),
            ("NOT_SET", "the variable `NOT_SET`, named by --env, is not set"),
        ] {
            let failure = task_with(&[flag], &project, &environment).await.unwrap_err();
            assert_eq!(failure.to_string(), message);
        }
    }

    #[tokio::test]
    async fn masked_value_under_another_name_is_refused() {
        let root = folder();
        for value in [TOKEN.to_owned(), format!("https://x:{TOKEN}@a.example")] {
            let environment = environment().with("C", &value);
            let project = project(&root, &environment);
            let failure = task(&project, &environment).await.unwrap_err().to_string();
            assert_eq!(
                failure,
                ".sandbox/sandbox.yaml:3:15: `C` contains a secret that the task has a surrogate of, as `TOKEN`: remove it here"
            );
            let problems = project.problems(&environment);
            let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(messages, [failure]);
        }
    }

    #[tokio::test]
    async fn unset_secret_is_reported_with_its_place() {
        let (root, environment) = (folder(), Environment::from([("HOME", "/no/such/home")]));
        let failure = task(&project(&root, &environment), &environment).await.unwrap_err();
        assert_eq!(failure.status().code(), 125);
        assert!(
            failure.to_string().starts_with(".sandbox/sandbox.yaml:4:18: the variable `TOKEN` is not set"),
            "{failure}"
        );
    }
}
