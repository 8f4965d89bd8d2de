//! Tests programs that use this crate without podman: through its public interface, like a user of
//! the library.
#![expect(clippy::unwrap_used, reason = "clippy treats shared test helpers as code outside of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use sandbox::executor::{ExecOptions, Executor, ExecutorConfig, ExecutorError, ExecutorMode};
use sandbox::launcher::{
    Answer, Exit, LaunchPlan, LaunchedProgram, Launcher, Output, ProgramControl, ProgramLog, Script,
    ScriptedEngine, Stdin,
};
use sandbox::runs::{LifecycleHooks, Readiness, RunError, RunName, RunSpec, VolumeSpec};
use sandbox::workspace::Protection;
use sandbox::{
    CommandResult, CommandSpec, ContainerEnv, ContainerError, EngineAddress, EngineError, ImageSource,
    ImageTag, Input, Mount, Network, NetworkSandboxConfig, Outcome, OutputChunk, Prompt, ResourceLimits,
    Sandbox, SandboxConfig, SandboxError, TaskSpec,
};
use tokio::io::AsyncReadExt as _;

/// A sandbox on a scripted engine, and a folder for a test's files on the host.
struct Fixture {
    folder: tempfile::TempDir,
    engine: ScriptedEngine,
    sandbox: Sandbox,
    image: ImageTag,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        let engine = ScriptedEngine::new();
        let config = SandboxConfig::new(EngineAddress::unix("/none"), folder.path().join("state"));
        let sandbox = Sandbox::with_launcher(config, engine.clone()).unwrap();
        let image = sandbox.ensure_image(&ImageSource::existing("localhost/x")).await.unwrap();
        Self { folder, engine, sandbox, image }
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn command(&self) -> CommandSpec {
        CommandSpec::new("c", self.image.clone(), ["prog", "arg"])
    }

    async fn run(&self, spec: CommandSpec, input: &str) -> Result<CommandResult, SandboxError> {
        self.sandbox.create_command(spec)?.execute(Input::Bytes(input.into())).await
    }

    fn executor(&self, mode: ExecutorMode) -> Executor {
        let config = ExecutorConfig::new("e", self.image.clone()).mode(mode);
        self.sandbox.create_executor(config).unwrap()
    }
}

/// The error with its causes.
fn chain(error: &SandboxError) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn command_is_launched_as_specified_and_plays_its_script() {
    let fixture = Fixture::new().await;
    fixture.engine.then(Script::new().stdout("out").stderr("err").stdout(vec![b'x'; 20_000]).exit(3));
    let policy = allowlist::Allowlist::from_yaml("domains: [api.example]", "policy.yaml").unwrap();
    let spec = fixture
        .command()
        .mount(Mount::read_write(fixture.tree(), "/workspace"))
        .working_dir("/workspace")
        .env(ContainerEnv::default().with("CI", "true"))
        .network(Network::Sandboxed(NetworkSandboxConfig::new(policy)))
        .limits(ResourceLimits::untrusted());
    let command = fixture.sandbox.create_command(spec).unwrap();
    let mut execution = command.execute(Input::Bytes(b"in".to_vec()));
    assert_eq!(execution.next().await, Some(OutputChunk::Stdout("out".into())));
    let result = execution.await.unwrap();
    assert_eq!((result.exit_code, result.stdout.len(), result.stderr), (3, 20_003, b"err".to_vec()));

    let [program] = &fixture.engine.programs()[..] else { panic!("one program") };
    assert_eq!(program.command, ["prog", "arg"]);
    assert_eq!((program.input.as_slice(), program.working_dir.as_deref()), (&b"in"[..], Some("/workspace")));
    assert_eq!(program.env.variables().get("CI").map(String::as_str), Some("true"));
    assert_eq!(program.plan.limits, ResourceLimits::untrusted());
    assert!(matches!(program.plan.network, Network::Sandboxed(_)));
    let workspace = program.plan.mounts.iter().find(|mount| mount.container_path() == "/workspace").unwrap();
    assert_eq!(workspace.host_path(), fs::canonicalize(fixture.tree()).unwrap());
    assert_eq!(fixture.engine.scripts_left(), 0);
    fixture.sandbox.shutdown().await.unwrap();
}

#[tokio::test]
async fn forced_ends_are_those_of_an_engine() {
    let fixture = Fixture::new().await;
    fixture.engine.then(Script::new().stdout("so far").runs_on()).then(Script::new().runs_out_of_memory());
    let limits = ResourceLimits::default().timeout(Duration::from_millis(20));
    let result = fixture.run(fixture.command().limits(limits), "").await.unwrap();
    assert_eq!((result.exit_code, result.timed_out, result.stdout), (143, true, b"so far".to_vec()));
    let result = fixture.run(fixture.command(), "").await.unwrap();
    assert_eq!((result.exit_code, result.oom_killed), (137, true));

    fixture.engine.then(Script::new().stdout("up").runs_on()).then(Script::new().ignores_input().runs_on());
    let command = fixture.sandbox.create_command(fixture.command()).unwrap();
    let mut execution = command.execute(Input::Empty);
    assert!(execution.next().await.is_some());
    assert!(matches!(
        command.set_policy(allowlist::Allowlist::default()).await,
        Err(SandboxError::NotRunning)
    ));
    assert!(command.stop().await);
    assert!(execution.await.unwrap().stopped);
    // Endless input does not delay a program that does not read it.
    drop(command.execute(Input::Reader(Box::new(tokio::io::repeat(0)))));
    fixture.sandbox.shutdown().await.unwrap();
}

#[tokio::test]
async fn engine_failures_are_returned_to_the_caller() {
    let fixture = Fixture::new().await;
    let not_found = ContainerError::ProgramNotFound { program: "prog".to_owned() };
    fixture
        .engine
        .then(Script::fails(EngineError::unreachable("create container", "x")))
        .then(Script::fails(EngineError::refused("create container", "x", "no space left")))
        .then(Script::fails(not_found))
        .then(Script::new().loses_the_engine());
    assert!(fixture.run(fixture.command(), "").await.unwrap_err().is_engine_unreachable());
    assert!(chain(&fixture.run(fixture.command(), "").await.unwrap_err()).contains("no space left"));
    let error = fixture.run(fixture.command(), "").await.unwrap_err();
    assert!(matches!(error, SandboxError::Container(ContainerError::ProgramNotFound { .. })), "{error:?}");
    assert!(fixture.run(fixture.command(), "").await.unwrap_err().is_engine_unreachable());

    let error = fixture.run(fixture.command(), "").await.unwrap_err();
    let expected = "program 5, `prog arg`; add one with `ScriptedEngine::then`";
    assert!(chain(&error).contains(expected), "{}", chain(&error));

    fixture.engine.without_image("localhost/x");
    assert!(matches!(fixture.run(fixture.command(), "").await, Err(SandboxError::NoImage(_))));
    let missing = fixture.sandbox.ensure_image(&ImageSource::existing("localhost/x")).await;
    assert!(matches!(missing, Err(SandboxError::ImageBuild(_))), "{missing:?}");
    let built = ImageSource::build("FROM localhost/x", [].into());
    let tags = fixture.sandbox.image_tags(&built).await.unwrap();
    assert_eq!(fixture.sandbox.ensure_image(&built).await.unwrap().as_str(), tags.overlay);
}

#[tokio::test]
async fn planted_file_is_found_and_the_session_continues() {
    let fixture = Fixture::new().await;
    let said = |text: &str| {
        format!(
            "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"{text}\",\"session_id\":\"s\"}}\n"
        )
    };
    let tree = fixture.tree();
    let plants = Script::new().at_start(move |plan| {
        assert!(plan.mounts.iter().any(|mount| mount.container_path() == "/workspace"));
        fs::write(tree.join(".envrc"), "evil").unwrap();
    });
    fixture
        .engine
        .then(plants.stdout(said("one")))
        .then(Script::new().stdout(said("two")))
        .then(Script::new().exit(9));
    let tree = Mount::read_write(fixture.tree(), "/workspace").protected(Protection::default());
    let session = fixture.folder.path().join("session");
    let task =
        fixture.sandbox.create_task(TaskSpec::new("t", fixture.image.clone(), session).mount(tree)).unwrap();

    let result = task.execute(Prompt::new("first")).await.unwrap();
    assert_eq!((result.outcome, result.response_text.as_str()), (Outcome::Success, "one"));
    assert!(result.tampered.len() == 1 && !fixture.tree().join(".envrc").exists(), "{:?}", result.tampered);
    let resume = task.session_store().session_id_for_resume().unwrap();
    let result = task.execute(Prompt::new("second").resume(resume).model("opus")).await.unwrap();
    assert_eq!((result.outcome, result.response_text.as_str()), (Outcome::Success, "two"));
    let result = task.execute(Prompt::new("third")).await.unwrap();
    assert_eq!(result.outcome, Outcome::ContainerFailed);

    let programs = fixture.engine.programs();
    assert_eq!(programs[1].command[..5], ["claude", "--resume", "s", "--model", "opus"]);
    let prompt: serde_json::Value = serde_json::from_slice(&programs[2].input).unwrap();
    assert_eq!(prompt["message"]["content"], "third");
}

#[tokio::test]
async fn executor_commands_and_files_are_programs_in_both_modes() {
    for mode in [ExecutorMode::Reuse, ExecutorMode::Fresh] {
        let fixture = Fixture::new().await;
        let executor = fixture.executor(mode);
        fixture.engine.then(Script::new().stdout(vec![b'y'; 100_000]).stderr("e").exit(2));
        let options = ExecOptions {
            stdin: Input::Bytes(vec![b'z'; 300_000]),
            env: ContainerEnv::default().with("A", "b"),
            working_dir: Some("/tmp".to_owned()),
            ..ExecOptions::default()
        };
        let result = executor.execute("make | tail", options).await.unwrap();
        assert_eq!((result.exit_code, result.stdout.len(), result.stderr), (2, 100_000, b"e".to_vec()));
        fixture.engine.then(Script::new().stdout("content"));
        assert_eq!(executor.read_file("/etc/x", 100).await.unwrap(), b"content");

        let not_found = ContainerError::ProgramNotFound { program: "x".to_owned() };
        fixture.engine.then(Script::fails(not_found)).then(Script::new().runs_on());
        let error = executor.execute(["x"], ExecOptions::default()).await.unwrap_err();
        assert!(
            matches!(error, SandboxError::Container(ContainerError::ProgramNotFound { .. })),
            "{error:?}"
        );
        let timeout = Some(Duration::from_millis(20));
        let options = ExecOptions { timeout, ..ExecOptions::default() };
        assert!(executor.execute(["sleep"], options).await.unwrap().timed_out);
        let error = executor.execute(["y"], ExecOptions::default()).await.unwrap_err();
        assert!(chain(&error).contains("no script for program 5, `y`"), "{}", chain(&error));

        fixture.engine.then(Script::new().loses_the_engine()).then(Script::new());
        let error = executor.execute(["z"], ExecOptions::default()).await.unwrap_err();
        assert!(matches!(error, SandboxError::Executor(ExecutorError::ContainerEnded { .. })), "{error:?}");
        assert!(executor.execute(["again"], ExecOptions::default()).await.unwrap().is_success());
        executor.cleanup().await.unwrap();

        let programs = fixture.engine.programs();
        assert_eq!(programs[0].command, ["sh", "-c", "make | tail"]);
        assert_eq!((programs[0].input.len(), programs[0].working_dir.as_deref()), (300_000, Some("/tmp")));
        assert!(programs[0].env.variables().contains_key("A"));
        assert_eq!(programs[1].command, ["read", "/etc/x"]);
        let same = programs[0].plan.name == programs[1].plan.name;
        assert_eq!(same, mode == ExecutorMode::Reuse);
    }
}

#[tokio::test]
async fn runs_of_this_process_start_and_end() {
    let fixture = Fixture::new().await;
    let runs = fixture.sandbox.runs();
    let (sender, mut called) = tokio::sync::mpsc::unbounded_channel();
    let call = move |what: &'static str| {
        let sender = sender.clone();
        move |_: RunName| {
            sender.send(what).unwrap();
            std::future::ready(Ok(()))
        }
    };
    let hooks = LifecycleHooks::default().post_ready(call("ready")).post_stop(call("stopped"));
    let name: RunName = "r".parse().unwrap();
    let spec = |name: &RunName| RunSpec::new(name.clone(), fixture.image.clone(), ["serve"]);

    fixture.engine.then(Script::new().stdout("begin\n>> init complete\n").runs_on());
    runs.run(spec(&name).volume(VolumeSpec::new(fixture.tree(), "/workspace")), hooks).await.unwrap();
    assert_eq!(runs.names().await.unwrap(), std::slice::from_ref(&name));
    assert!(runs.wait_until_ready(&name, None).await.unwrap().is_ready());
    let waited = runs.wait_for_exit(&name, Some(Duration::from_millis(10))).await;
    assert!(matches!(waited, Err(SandboxError::Run(RunError::StillRunning { .. }))), "{waited:?}");
    let copied = runs.copy_to(&name, Path::new("/etc/hostname"), "/x").await;
    assert!(matches!(copied, Err(SandboxError::NoEngine)), "{copied:?}");
    let again = runs.create(spec(&name), LifecycleHooks::default()).await;
    assert!(matches!(again, Err(SandboxError::Run(RunError::NameTaken(_)))), "{again:?}");
    assert!(runs.stop(std::slice::from_ref(&name)).await[0].removed);
    assert_eq!((called.recv().await, called.recv().await), (Some("ready"), Some("stopped")));
    assert!(runs.names().await.unwrap().is_empty() && !runs.task_state_dir(&name).exists());

    fixture.engine.then(Script::new().stdout("no marker").exit(4));
    runs.run(spec(&name), LifecycleHooks::default()).await.unwrap();
    assert_eq!(runs.wait_until_ready(&name, None).await.unwrap(), Readiness::Ended);
    assert_eq!(runs.wait_for_exit(&name, None).await.unwrap().code, 4);
    let sealed = spec(&"s".parse().unwrap()).volume(VolumeSpec::new(fixture.tree(), "/workspace")).sealed();
    let refused = runs.run(sealed, LifecycleHooks::default()).await;
    assert!(matches!(refused, Err(SandboxError::NoEngine)), "{refused:?}");
}

/// A custom launcher: a program writes the bytes that it reads.
#[derive(Debug)]
struct Echo;

impl Launcher for Echo {
    fn has_image<'a>(&'a self, image: &'a str) -> Answer<'a, bool> {
        Box::pin(std::future::ready(Ok(image == "localhost/echo")))
    }

    fn launch<'a>(&'a self, _: &'a LaunchPlan) -> Answer<'a, LaunchedProgram, ContainerError> {
        let (stdin, reader) = tokio::io::duplex(64);
        let output = futures_util::stream::unfold(reader, async |mut reader| {
            let mut bytes = Vec::new();
            let read = reader.read_buf(&mut bytes).await.unwrap();
            (read > 0).then(|| (Ok(OutputChunk::Stdout(bytes.into())), reader))
        });
        let (stdin, output) = (Stdin::new(stdin), Output::new(output));
        Box::pin(std::future::ready(Ok(LaunchedProgram { stdin, output, control: Arc::new(Self) })))
    }
}

impl ProgramControl for Echo {
    fn wait(&self) -> Answer<'_, Exit> {
        Box::pin(std::future::ready(Ok(Exit::new(7))))
    }

    fn stop(&self) -> Answer<'_, ()> {
        self.remove()
    }

    fn kill(&self) -> Answer<'_, ()> {
        self.remove()
    }

    fn log(&self) -> Answer<'_, ProgramLog> {
        Box::pin(std::future::ready(Err(EngineError::refused("read the log of", "echo", "it has none"))))
    }

    fn remove(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn custom_launcher_is_usable() {
    let folder = tempfile::tempdir().unwrap();
    let config = SandboxConfig::new(EngineAddress::unix("/none"), folder.path());
    let sandbox = Sandbox::with_launcher(config, Echo).unwrap();
    assert!(sandbox.ensure_image(&ImageSource::existing("localhost/x")).await.is_err());
    let image = sandbox.ensure_image(&ImageSource::existing("localhost/echo")).await.unwrap();
    let spec = || CommandSpec::new("c", image.clone(), ["x"]);
    let input = vec![b'i'; 10_000];
    let result = sandbox.create_command(spec()).unwrap().execute(Input::Bytes(input.clone())).await.unwrap();
    assert_eq!((result.exit_code, result.stdout), (7, input));
    let name: RunName = "r".parse().unwrap();
    let run = RunSpec::new(name.clone(), image.clone(), ["x"]);
    sandbox.runs().run(run, LifecycleHooks::default()).await.unwrap();
    let error = sandbox.runs().wait_until_ready(&name, None).await.unwrap_err();
    assert!(chain(&error).contains("it has none"), "{}", chain(&error));
}

#[tokio::test]
async fn operation_that_needs_an_engine_is_an_error() {
    let fixture = Fixture::new().await;
    fixture.sandbox.prepare().await.unwrap();
    fixture.sandbox.sweep().await.unwrap();
    for refused in [
        fixture.sandbox.engine_facts().await.map(drop),
        fixture.sandbox.inventory().await.map(drop),
        fixture.sandbox.list_images().await.map(drop),
        fixture.sandbox.remove_shared().await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, SandboxError::NoEngine) && error.to_string().contains("Sandbox::start"));
    }
}
