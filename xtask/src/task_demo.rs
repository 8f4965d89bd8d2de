//! `demo`: shows what the sandbox does, on this machine, without any preparation.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::cargo;
use crate::claude_code;
use crate::demo::{ALLOWLIST, Api, KEY, Project, Settings, StandIn, block, heading};
use crate::engine::{Podman, Socket, ensure_image};
use crate::report::{say, seconds, step};
use crate::task_base_image::BASE;
use crate::task_engine;
use crate::task_proxy_image;
use crate::workspace;

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Use the private engine of this podman version; else the podman that you run, else a private
    /// one.
    #[arg(long, value_name = "VERSION")]
    podman: Option<Podman>,
    /// Run the tasks in this image of your engine, which must have bash and curl; else in a Debian
    /// image that is built here.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Use this program of Claude Code; else `CLAUDE_BIN`, else `claude` on PATH, else npm's.
    #[arg(long, value_name = "PATH")]
    claude_bin: Option<PathBuf>,
    /// Use the stand-in for the API even if `ANTHROPIC_API_KEY` is set.
    #[arg(long)]
    stand_in: bool,
    /// Whether to use the programs that tests have built.
    #[arg(skip)]
    is_test: bool,
}

impl DemoArgs {
    /// The demo as a test: on a private engine, without an account.
    pub(crate) fn for_tests() -> Self {
        Self { podman: Some(Podman::Five), image: None, claude_bin: None, stand_in: true, is_test: true }
    }
}

const ALLOWED: &str = "https://allowed.example/public/hello";
const BLOCKED: &str = "https://blocked.example/upload";

/// The prerequisites of the demo.
struct Prepared {
    socket: Socket,
    image: String,
    sandbox: PathBuf,
    stand_in: PathBuf,
    claude: PathBuf,
}

/// Shows the demo, and fails if the sandbox does not behave as shown.
pub(crate) fn run(args: &DemoArgs) -> Result<()> {
    let begin = Instant::now();
    let api = if std::env::var_os(KEY).is_some() && !args.stand_in { Api::Real } else { Api::StandIn };
    announce(api);
    let _lock = lock()?;
    let prepared = prepare(args)?;
    let ready = begin.elapsed();
    show(&prepared, api)?;
    say(format!(
        "the demo succeeded: {} of preparation, {} of showing",
        seconds(ready),
        seconds(begin.elapsed().saturating_sub(ready))
    ));
    Ok(())
}

fn announce(api: Api) {
    say("this shows an allowed request, a blocked request, the log of both, and Claude Code in the sandbox");
    if !proxy().exists() || !StandIn::program().exists() {
        say("the first time it builds the programs, which takes some minutes, and fetches what is missing:");
        say("  podman with apt, a Debian for the tasks (about a minute), Claude Code with npm (about 70 MB)");
        say("afterwards it takes less than half a minute");
    }
    say(match api {
        Api::Real => {
            "ANTHROPIC_API_KEY is set: Claude Code will send one short question to the real API, on your account"
        }
        Api::StandIn => {
            "Claude Code will use a local stand-in for the Messages API: no key and no internet is needed"
        }
    });
}

/// Prepares the demo; steps that fail fast come first.
fn prepare(args: &DemoArgs) -> Result<Prepared> {
    let socket = step("finding an engine", || task_engine::find_or_start(args.podman))?;
    let claude = step("finding Claude Code", || claude_code::visible_program(args.claude_bin.as_deref()))?;
    let image = step("finding an image for tasks", || image(&socket, args))?;
    let sandbox = step("building the sandbox command", || {
        if args.is_test { cargo::program_for_tests("sandbox") } else { cargo::program("sandbox", &[]) }
    })?;
    task_proxy_image::build_for_tests()?;
    let stand_in = StandIn::build()?;
    Ok(Prepared { socket, image, sandbox, stand_in, claude })
}

fn image(socket: &Socket, args: &DemoArgs) -> Result<String> {
    if let Some(image) = &args.image {
        return Ok(image.clone());
    }
    ensure_image(socket, &BASE)?;
    Ok(BASE.reference())
}

fn show(prepared: &Prepared, api: Api) -> Result<()> {
    let stand_in = step("starting a stand-in for the internet, in a container", || {
        StandIn::start(&prepared.socket, "demo", &prepared.stand_in)
    })?;
    say(format!("it answers for every name at {} and is removed at the end", stand_in.address()));
    let settings = Settings { engine: &prepared.socket.url(), image: &prepared.image, stand_in: &stand_in };
    let project = Project::write(folder().join("project"), prepared.sandbox.clone(), api, &settings)?;
    heading("a project with this allowlist");
    eprintln!("$ cd {}", project.folder().display());
    eprintln!("$ cat .sandbox/network-allowlist.yaml");
    block(ALLOWLIST);
    heading("an image for its tasks, built once and kept");
    timed(|| project.build_image())?;
    show_requests(&project)?;
    show_agent(&project, &prepared.claude, api)
}

fn show_requests(project: &Project) -> Result<()> {
    heading("an allowed request");
    let page = timed(|| project.run(&["curl", "--silent", "--show-error", ALLOWED]))?;
    block(&page);
    if page.trim() != "hello from allowed.example" {
        bail!("the allowed request did not get the page");
    }
    heading("a blocked request, and the refusal that the task gets");
    let refusal = timed(|| project.run(&["curl", "--silent", "--show-error", BLOCKED]))?;
    let refusal: Value =
        serde_json::from_str(&refusal).with_context(|| format!("the refusal is not JSON: {refusal}"))?;
    block(&format!("{refusal:#}"));
    if refusal.get("error").and_then(Value::as_str) != Some("blocked_by_network_allowlist") {
        bail!("the blocked request did not get a refusal");
    }
    heading("the network log of both requests");
    eprintln!("$ cat network.log");
    let log = project.network_log()?;
    block(&log);
    for line in [format!("allowed GET {ALLOWED} -> 200"), format!("BLOCKED GET {BLOCKED} -> 403")] {
        if !log.contains(&line) {
            bail!("the network log lacks `{line}`");
        }
    }
    Ok(())
}

fn show_agent(project: &Project, claude: &std::path::Path, api: Api) -> Result<()> {
    heading(match api {
        Api::Real => "Claude Code in the sandbox, with your key",
        Api::StandIn => "Claude Code in the sandbox, against a stand-in for the Messages API",
    });
    let reply = timed(|| project.ask(claude, "Say in one sentence what a sandbox is good for."))?;
    block(&reply);
    if reply.trim().is_empty() {
        bail!("Claude Code gave no answer");
    }
    heading("the network log of Claude Code");
    block(&project.newest_log()?);
    Ok(())
}

fn timed<T>(action: impl FnOnce() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    let result = action()?;
    eprintln!("  ({})", seconds(begin.elapsed()));
    Ok(result)
}

/// Concurrent demos of one checkout would overwrite each other's project.
fn lock() -> Result<File> {
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("failed to write {}", path.display()))?;
    file.lock().with_context(|| format!("failed to lock {}", path.display()))?;
    Ok(file)
}

fn folder() -> PathBuf {
    workspace::state().join("demo")
}

fn proxy() -> PathBuf {
    workspace::target().join("proxy/sandbox-proxy")
}
