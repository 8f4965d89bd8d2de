//! `e2e`: the end-to-end tests, against real podman, the real proxy and real clients.
//!
//! The tests run in the *world* namespace of a private engine, where they start the servers that tasks reach. What they
//! need is made first and named to them in `SANDBOX_E2E_…`; nothing is skipped when something is missing.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::apt::{self, Needed};
use crate::cargo;
use crate::claude_code;
use crate::engine::{Podman, PrivateEngine, Socket, ensure_image, ordinary_user, ping};
use crate::mcp_server;
use crate::netns::{self, Pair};
use crate::npm;
use crate::other_agents::{self, OtherAgents};
use crate::process::{self, command};
use crate::report::{say, step};
use crate::s3_server;
use crate::suite::{self, Tally};
use crate::task_base_image::{BASE, CLIENTS};
use crate::task_proxy_image::{self, FOR_TESTS, INSIDE};
use crate::test_run::TestRun;
use crate::workspace;

#[derive(Args)]
pub(crate) struct E2eArgs {
    /// The engines to test on; `both` is 4 and 5.
    #[arg(long, value_name = "ENGINE", default_value = "all")]
    podman: Engines,
    /// Tests on the engine behind this socket instead, in the network where you are.
    #[arg(long, value_name = "SOCKET", conflicts_with = "podman")]
    engine: Option<String>,
    /// How many tests run at once [default: 3].
    #[arg(long, value_name = "N")]
    test_threads: Option<usize>,
    /// Ends the private engines after the tests; they are kept otherwise and found again next time.
    #[arg(long)]
    stop_engines: bool,
    /// Claude Code's program.
    #[arg(long, value_name = "PATH")]
    claude_bin: Option<PathBuf>,
    /// Runs only tests whose names contain one of these.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Engines {
    #[value(name = "4")]
    Four,
    #[value(name = "5")]
    Five,
    #[value(name = "4-rootless")]
    FourRootless,
    #[value(name = "5-rootless")]
    FiveRootless,
    Gvisor,
    Quota,
    Both,
    All,
}

impl Engines {
    fn each(self) -> &'static [Podman] {
        match self {
            Self::Four => &[Podman::Four],
            Self::Five => &[Podman::Five],
            Self::FourRootless => &[Podman::FourRootless],
            Self::FiveRootless => &[Podman::FiveRootless],
            Self::Gvisor => &[Podman::Gvisor],
            Self::Quota => &[Podman::Quota],
            Self::Both => &[Podman::Four, Podman::Five],
            Self::All => &[
                Podman::Four,
                Podman::Five,
                Podman::FourRootless,
                Podman::FiveRootless,
                Podman::Gvisor,
                Podman::Quota,
            ],
        }
    }
}

impl Default for E2eArgs {
    fn default() -> Self {
        Self {
            podman: Engines::All,
            engine: None,
            test_threads: None,
            stop_engines: false,
            claude_bin: None,
            filters: Vec::new(),
        }
    }
}

/// The tests that an engine without root is tested with: what depends on the engine.
const ROOTLESS: [&str; 12] = [
    "rootless::",
    "isolation::",
    "agent::",
    "command_line::run::",
    "credentials::scope::",
    "hardening::process::",
    "care::doctor",
    "executor::",
    "services::a_link",
    "services::the_policy_decides",
    "taken_over::",
    "verify::",
];
/// Parts of the names of those of them that are left out; CONTRIBUTING.md says why.
const NEED_ROOT: [&str; 18] = [
    "datagrams_to_the_host",
    "link_local",
    "udp_and_icmp",
    "cannot_be_pinged",
    "internal_network_reaches_the_host",
    "swap_is_none",
    "a_fork_bomb_ends",
    "memory_is_limited",
    "ten_gigabytes",
    "commands_die_with_the_process",
    "is_looked_after",
    "command_line::verify",
    "every_guarantee_for_an_agent",
    "devices_names_of_the_host_and_limits",
    "more_capabilities",
    "shares_the_host",
    "could_raise_its_limits",
    "a_refusal_of_processes",
];
/// Where the host's service answers that such tests look for.
const HOST_SERVICE: u16 = 7070;

/// Whose integration tests these are.
pub(crate) const PACKAGE: &str = "e2e-tests";
/// Tests of what does not depend on podman's version, by module: a whole run makes them on one version only.
const ON_ONE_VERSION: [&str; 45] = [
    "agent",
    "clients",
    "command_line::agent",
    "command_line::auto",
    "command_line::exec",
    "command_line::left_behind",
    "command_line::logs",
    "command_line::policy",
    "command_line::run",
    "command_line::settings",
    "command_line::workspace",
    "credentials::clients",
    "credentials::echo",
    "credentials::foreign",
    "credentials::s3",
    "credentials::scope",
    "credentials::search::needles",
    "credentials::search::panic",
    "credentials::search::trace",
    "examples",
    "executor::behaviour",
    "executor::crowd",
    "executor::errors",
    "executor::files",
    "executor::network",
    "executor::output",
    "executor::parallel",
    "executor::timeouts",
    "executor::workspace",
    "gateway",
    "identity",
    "mcp",
    "protocols",
    "reliability::flood",
    "reliability::proxy_faults",
    "reliability::record",
    "reliability::unfinished_agent",
    "requests",
    "resources::traffic",
    "runs::policy",
    "workspace::followed",
    "workspace::layouts",
    "workspace::links",
    "workspace::others",
    "workspace::planted",
];

/// How many tests run at once: more than two processors, since most of a test is waiting.
const TEST_THREADS: usize = 3;
/// The last npm that runs on the Node.js of the image with clients.
const NPM: &str = "npm@10";

/// What the tests use, whichever engine they run on.
struct Programs {
    tests: Vec<TestProgram>,
    examples: PathBuf,
    sandbox: PathBuf,
    proxy: PathBuf,
    /// The folder of the command and the proxy that panic when they are asked to.
    forced_panic: PathBuf,
    /// The program inside, with the attacks of tests.
    attempts: PathBuf,
    claude: PathBuf,
    agents: OtherAgents,
    npm: PathBuf,
    mcp_server: PathBuf,
    s3_server: PathBuf,
}

/// A file of tests, built.
struct TestProgram {
    name: String,
    path: PathBuf,
}

/// Fails if a test fails.
pub(crate) fn run(args: &E2eArgs) -> Result<()> {
    let tally = run_all(args)?;
    println!("{}", tally.line());
    if tally.failed + tally.broken > 0 {
        bail!("end-to-end tests failed");
    }
    if tally.passed == 0 {
        bail!("no end-to-end test ran");
    }
    Ok(())
}

/// Prepares everything and runs the tests on every engine asked for.
pub(crate) fn run_all(args: &E2eArgs) -> Result<Tally> {
    let programs = prepare(args)?;
    if let Some(socket) = &args.engine {
        return on_named_engine(args, &programs, socket);
    }
    let mut total = Tally::default();
    for podman in args.podman.each() {
        total += on_private_engine(args, &programs, *podman)?;
    }
    Ok(total)
}

/// What fails fast comes first.
fn prepare(args: &E2eArgs) -> Result<Programs> {
    let claude = claude_code::visible_program(args.claude_bin.as_deref())?;
    let agents = other_agents::programs()?;
    let npm = npm::unpacked(NPM, "npm")?;
    let mcp_server = mcp_server::program()?;
    let s3_server = s3_server::program()?;
    apt::ensure(&[
        Needed { program: "pg_createcluster", package: "postgresql" },
        Needed { program: "redis-server", package: "redis-server" },
    ])?;
    let attempts = workspace::target().join("attempts").join(INSIDE);
    step("building the program that attacks from inside", || {
        let options = [&FOR_TESTS[..], &["--features", "attempts"]].concat();
        cargo::static_program(INSIDE, INSIDE, &options, &attempts)
    })?;
    let forced_panic = step("building the programs that panic when they are asked to", build_forced_panic)?;
    let sandbox = step("building the sandbox command", || cargo::program("sandbox", &[]))?;
    let tests = step("building the tests", build_tests)?;
    let examples = step("building the examples", build_examples)?;
    let proxy = task_proxy_image::build(&FOR_TESTS)?;
    Ok(Programs {
        tests,
        examples,
        sandbox,
        proxy,
        forced_panic,
        attempts,
        claude,
        agents,
        npm,
        mcp_server,
        s3_server,
    })
}

/// The folder of the command and the proxy with the feature `forced-panic`. The command has to be built before the ordinary one, which
/// cargo then puts into its place.
fn build_forced_panic() -> Result<PathBuf> {
    let folder = workspace::target().join("forced-panic");
    let command = cargo::program("sandbox", &["--features", "sandbox-cli/forced-panic"])?;
    cargo::install(&fs::read(&command)?, &folder.join("sandbox"))?;
    let options = [&FOR_TESTS[..], &["--features", "forced-panic"]].concat();
    let proxy = folder.join("sandbox-proxy");
    cargo::static_program("sandbox-proxy", "sandbox-proxy", &options, &proxy)?;
    Ok(folder)
}

fn build_tests() -> Result<Vec<TestProgram>> {
    let mut names: Vec<String> = cargo::integration_tests()?
        .into_iter()
        .filter(|test| test.package == PACKAGE)
        .map(|test| test.name)
        .collect();
    names.sort();
    for podman in Engines::All.each() {
        if !names.iter().any(|name| name == podman.tests()) {
            bail!("the package {PACKAGE} has no tests for {}", podman.name());
        }
    }
    let selection = names.iter().flat_map(|name| ["--test", name.as_str()]);
    let mut built = cargo::executables(["test", "--workspace", "--no-run"].into_iter().chain(selection))?;
    names
        .into_iter()
        .map(|name| {
            let path = built.remove(&name).with_context(|| format!("cargo built no test {name}"))?;
            Ok(TestProgram { name, path })
        })
        .collect()
}

/// The folder of the libraries' examples.
fn build_examples() -> Result<PathBuf> {
    let built = cargo::executables(["build", "--workspace", "--examples"])?;
    let example = built.get("run_command").context("cargo built no example run_command")?;
    Ok(example.parent().unwrap_or(example).to_owned())
}

fn on_private_engine(args: &E2eArgs, programs: &Programs, podman: Podman) -> Result<Tally> {
    let engine = PrivateEngine::new(Some(podman));
    let version = step(&format!("starting {}", podman.name()), || engine.ensure())?;
    prepare_images(engine.socket())?;
    let under_test = TestEngine {
        socket: engine.socket(),
        major: version.split('.').next().unwrap_or_default(),
        pair: Some(Pair::of(podman.name())),
        user: podman.is_rootless().then_some(&engine),
        tests: podman.tests(),
        runs_less: podman == Podman::Four && args.podman.each().contains(&Podman::Five),
    };
    let what = format!("podman {version} ({})", podman.name());
    let tally = step(&format!("end-to-end tests on {what}"), || on_engine(args, programs, &under_test))?;
    say(format!("{what}: {}", tally.line()));
    if args.stop_engines {
        step(&format!("stopping {}", podman.name()), || engine.stop())?;
    }
    Ok(tally)
}

fn on_named_engine(args: &E2eArgs, programs: &Programs, socket: &str) -> Result<Tally> {
    let socket = Socket::parse(socket).with_context(|| format!("{socket} is not a unix socket"))?;
    let version = ping(&socket).with_context(|| format!("no podman answers on {}", socket.url()))?;
    say("this engine has no namespaces of its own: tests that need them will fail");
    prepare_images(&socket)?;
    let under_test = TestEngine {
        socket: &socket,
        major: version.split('.').next().unwrap_or_default(),
        pair: None,
        user: None,
        tests: Podman::Five.tests(),
        runs_less: false,
    };
    step(&format!("end-to-end tests on podman {version}"), || on_engine(args, programs, &under_test))
}

fn prepare_images(socket: &Socket) -> Result<()> {
    ensure_image(socket, &BASE)?;
    ensure_image(socket, &CLIENTS)
}

/// Where tests run.
struct TestEngine<'a> {
    socket: &'a Socket,
    /// Podman's major version.
    major: &'a str,
    pair: Option<Pair>,
    /// The engine, where an ordinary user runs it and the tests.
    user: Option<&'a PrivateEngine>,
    /// The file of tests that are for it.
    tests: &'a str,
    /// Whether another engine runs what does not depend on podman's version.
    runs_less: bool,
}

fn on_engine(args: &E2eArgs, programs: &Programs, under_test: &TestEngine<'_>) -> Result<Tally> {
    let environment = environment(programs, under_test);
    let mut tally = Tally::default();
    for test in programs.tests.iter().filter(|test| test.name == under_test.tests) {
        let mut command = match &under_test.pair {
            Some(pair) => netns::enter(&pair.world, []),
            None => command("env", ["--"]),
        };
        if let Some(engine) = under_test.user {
            command.args(ordinary_user::become_on(engine.pid().context("the engine has ended")?));
        }
        command.arg(&test.path).envs(environment.iter().cloned());
        let run = TestRun::begin(under_test.socket)?;
        let mut service = None;
        if let Some(engine) = under_test.user {
            all_are_there(ROOTLESS.iter().chain(&NEED_ROOT), &tests_of(&test.path)?)?;
            service = Some(engine.host_service(HOST_SERVICE)?);
            command.env("SANDBOX_E2E_HOST_SERVICE", HOST_SERVICE.to_string());
            command.args(NEED_ROOT.iter().flat_map(|name| ["--skip", name]));
            command.args(ROOTLESS.iter().filter(|_| args.filters.is_empty()));
            ordinary_user::own(&run.environment().map(|(_, folder)| folder))?;
        }
        command.args(&args.filters);
        let threads = args.test_threads.unwrap_or(TEST_THREADS);
        command.arg(format!("--test-threads={threads}"));
        if under_test.runs_less && args.filters.is_empty() {
            command.arg("--exact").args(of_both_versions(&test.path)?);
        }
        command.current_dir(workspace::root().join("tests"));
        let ended = suite::run(command.envs(run.environment()));
        drop(service);
        run.end()?;
        tally += ended?;
    }
    Ok(tally)
}

/// The names of the tests of a program.
fn tests_of(program: &Path) -> Result<Vec<String>> {
    let list = process::output(&mut command(program, ["--list", "--format=terse"]))?;
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(tests.map(str::to_owned).collect())
}

/// Fails unless each of `names` is in the name of one of `tests`: what was renamed would no longer be tested, or no longer be left out.
fn all_are_there<'a>(names: impl IntoIterator<Item = &'a &'a str>, tests: &[String]) -> Result<()> {
    for name in names {
        if !tests.iter().any(|test| test.contains(name)) {
            bail!("no end-to-end test has `{name}` in its name, which task_e2e.rs lists");
        }
    }
    Ok(())
}

/// The tests of a program without those of [`ON_ONE_VERSION`].
fn of_both_versions(program: &Path) -> Result<Vec<String>> {
    let on_one = |test: &String| {
        let below = |module: &&str| test.strip_prefix(*module).is_some_and(|rest| rest.starts_with("::"));
        ON_ONE_VERSION.iter().any(below)
    };
    let tests = tests_of(program)?.into_iter();
    Ok(tests.filter(|test| !on_one(test)).collect())
}

fn environment(programs: &Programs, under_test: &TestEngine<'_>) -> Vec<(&'static str, OsString)> {
    let folder = |program: &Path| program.parent().unwrap_or(program).into();
    let mut environment: Vec<(&'static str, OsString)> = vec![
        ("SANDBOX_E2E_ENGINE", under_test.socket.url().into()),
        ("SANDBOX_E2E_PODMAN", under_test.major.into()),
        ("SANDBOX_E2E_IMAGE", BASE.reference().into()),
        ("SANDBOX_E2E_CLIENTS_IMAGE", CLIENTS.reference().into()),
        ("SANDBOX_E2E_CLAUDE", programs.claude.clone().into()),
        ("SANDBOX_E2E_CODEX", programs.agents.codex.clone().into()),
        ("SANDBOX_E2E_GEMINI", programs.agents.gemini.clone().into()),
        ("SANDBOX_E2E_OPENCODE", programs.agents.opencode.clone().into()),
        ("SANDBOX_E2E_NODE", programs.agents.node.clone().into()),
        ("SANDBOX_E2E_NPM", programs.npm.clone().into()),
        ("SANDBOX_E2E_MCP_SERVER", programs.mcp_server.clone().into()),
        ("SANDBOX_E2E_S3_SERVER", programs.s3_server.clone().into()),
        ("SANDBOX_E2E_PROXY_DIR", folder(&programs.proxy)),
        ("SANDBOX_E2E_SANDBOX_BIN", programs.sandbox.clone().into()),
        ("SANDBOX_E2E_FORCED_PANIC_DIR", programs.forced_panic.clone().into()),
        ("SANDBOX_E2E_EXAMPLES", programs.examples.clone().into()),
        ("SANDBOX_E2E_PROBE", programs.attempts.clone().into()),
    ];
    if let Some(pair) = &under_test.pair {
        environment.push(("SANDBOX_E2E_HOST_NETNS", Pair::path(&pair.host).into()));
        environment.push(("SANDBOX_E2E_WORLD_NETNS", Pair::path(&pair.world).into()));
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_test_has_is_an_error() {
        let tests = ["rootless::a_limit_holds".to_owned()];
        assert!(all_are_there(&["rootless::", "limit"], &tests).is_ok());
        let error = all_are_there(&["rootless::", "isolation::"], &tests).unwrap_err();
        assert!(error.to_string().contains("`isolation::`"), "{error}");
    }

    #[test]
    fn every_module_on_the_list_is_there() {
        for module in ON_ONE_VERSION {
            let path = workspace::root().join("tests/tests/e2e").join(module.replace("::", "/"));
            assert!(path.is_dir() || path.with_extension("rs").is_file(), "{module}");
        }
    }
}
