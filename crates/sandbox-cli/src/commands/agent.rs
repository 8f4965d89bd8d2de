//! `agent`: an agent, its session, and its answer for people or programs.

use std::io::{self, IsTerminal as _};
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use claude_output::{EventKind, StreamEvent};
use futures_util::StreamExt as _;
use futures_util::future::OptionFuture;
use sandbox::host_path::Resolver;
use sandbox::session::SessionError;
use sandbox::{
    Agent, ContainerEnv, ContainerError, ExecutionResult, OnStall, Prompt, SandboxError, Task, TaskSpec,
};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

use crate::args::{AgentArgs, AgentInput, AgentOutput, GlobalArgs, StallTime};
use crate::config::{Environment, WorkspaceMode};
use crate::control::Controlled;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::git_report::report_imported;
use crate::network_log::report_blocked;
use crate::owner::Owner;
use crate::printer::{Printer, sanitize_name};
use crate::questions::{Asking, Board};
use crate::run_context::{Executed, RunContext};
use crate::run_record::RunRecord;
use crate::session_folder::SessionFolder;
use crate::settings::{Project, TaskSettings, TrustedProject};
use crate::tamper_report;

use super::each;
use super::transcript::{self, Streamed};

mod bundled;
mod input;
mod report;
mod status_line;
mod typed;

pub(super) use bundled::{packed, summary};
use input::Messages;
pub(super) use report::json;
use report::{no_program, report};
use status_line::{StatusLine, TICK};

/// The default work tree mode of an agent.
pub(crate) const WORKSPACE: WorkspaceMode = WorkspaceMode::Auto;

/// The settings of an agent's execution and of its output.
#[derive(Debug)]
pub(crate) struct AgentSettings {
    agent: Agent,
    /// `None` if prompts are typed on a terminal.
    prompt: Option<String>,
    resume: Resume,
    model: Option<String>,
    session: SessionFolder,
    agent_bin: Option<PathBuf>,
    max_turns: Option<NonZeroU32>,
    max_budget: Option<f64>,
    stall: Option<(Duration, OnStall)>,
    briefing: bool,
    arguments: Vec<String>,
    input: AgentInput,
    output: AgentOutput,
    /// Whether its text is printed as it arrives.
    streams: bool,
}

/// The session to resume.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Resume {
    None,
    Last,
    Id(String),
}

impl AgentSettings {
    /// Reads the prompt from stdin if it is not an argument.
    pub(crate) fn new(args: AgentArgs, project: &Project, printer: Printer) -> Result<Self, Failure> {
        let is_typed = is_typed(&args);
        let session = args.session_dir.as_deref().map(std::path::absolute).transpose()?;
        let task = args.agent_task;
        let agent = agent_of(task.agent.as_deref(), project)?;
        let session = SessionFolder::new(session, project, &agent);
        let (resume, prompt) = resume_and_prompt(args.resume, task.prompt);
        let prompt = if is_typed { None } else { Some(input::prompt(prompt, args.input)?) };
        for (flag, is_given) in [
            ("--max-turns", task.max_turns.is_some()),
            ("--max-budget", task.max_budget.is_some()),
            ("--stop-on-stall", task.stop_on_stall),
        ] {
            if is_typed && is_given {
                return Err(Failure::usage(format!("{flag} needs a prompt")).with_hint(
                    "pass the prompt as the last argument; on a terminal, stop the agent yourself",
                ));
            }
        }
        let agent_bin = args.agent_bin.map(|path| program(&path, &project.resolver));
        let stall = stall(task.stall, task.stop_on_stall)?;
        let session = match &resume {
            Resume::None => session,
            Resume::Last => session.most_recent()?,
            Resume::Id(id) => session.with_session(id)?,
        };
        Ok(Self {
            agent,
            prompt,
            resume,
            model: task.model,
            session,
            agent_bin: agent_bin.transpose()?,
            max_turns: task.max_turns,
            max_budget: task.max_budget,
            stall,
            briefing: !task.no_briefing,
            arguments: task.arguments,
            input: args.input,
            output: args.output,
            streams: printer.streams(),
        })
    }
}

/// The program of an agent at `path`.
pub(super) fn program(path: &Path, resolver: &Resolver) -> Result<PathBuf, Failure> {
    let found = resolver.find(path).map_err(Failure::doing(format!("find `{}`", path.display())))?;
    let failed = || Failure::doing(format!("read `{}`", found.path().display()));
    let facts = found.file()?.metadata().map_err(failed())?;
    if facts.mode() & 0o111 == 0 {
        let path = found.path().display();
        return Err(Failure::new(format!("`{path}` is not a valid program: it is not executable"))
            .with_hint(format!("if it is the agent's program, run `chmod +x {path}`")));
    }
    // The engine would mount the link itself, whose target does not exist in the container.
    Ok(found.path().to_owned())
}

/// The time of --stall, and what happens after it.
fn stall(time: StallTime, stops: bool) -> Result<Option<(Duration, OnStall)>, Failure> {
    let then = if stops { OnStall::Stop } else { OnStall::Report };
    match time {
        StallTime::Off if stops => {
            Err(Failure::usage("--stop-on-stall needs a stall time").with_hint("omit `--stall off`"))
        }
        StallTime::Off => Ok(None),
        StallTime::After(time) => Ok(Some((time, then))),
    }
}

/// The agent of the flag, otherwise of `sandbox.yaml`, otherwise Claude Code.
pub(super) fn agent_of(flag: Option<&str>, project: &Project) -> Result<Agent, Failure> {
    match flag {
        Some(name) => name.parse().map_err(|error: sandbox::UnknownAgent| Failure::usage(error.to_string())),
        None => Ok(project.agent()),
    }
}

/// `--resume` takes an optional id, so clap parses a prompt after it as the id; it is the id only
/// if it looks like one.
fn resume_and_prompt(resume: Option<String>, prompt: Option<String>) -> (Resume, Option<String>) {
    match (resume, prompt) {
        (None, prompt) => (Resume::None, prompt),
        (Some(id), prompt) if id.is_empty() => (Resume::Last, prompt),
        (Some(text), None) if !is_session_id(&text) => (Resume::Last, Some(text)),
        (Some(id), prompt) => (Resume::Id(id), prompt),
    }
}

/// Whether the agent's own screen is shown: no prompt was given, and there is a terminal. An owner
/// process was started for such a run.
pub(super) fn is_typed(args: &AgentArgs) -> bool {
    let resumed = args.resume.as_deref().unwrap_or_default();
    let has_prompt = args.agent_task.prompt.is_some() || !(resumed.is_empty() || is_session_id(resumed));
    let is_plain = args.input == AgentInput::Text
        && args.output == AgentOutput::Text
        && !args.detach
        && args.each.is_none();
    let has_terminal = || io::stdin().is_terminal() && io::stdout().is_terminal();
    is_plain && !has_prompt && (Owner::of_this_process().is_some() || has_terminal())
}

/// Whether `text` looks like a UUID or an id of `OpenCode`.
fn is_session_id(text: &str) -> bool {
    if text
        .strip_prefix("ses_")
        .is_some_and(|rest| rest.len() > 8 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    {
        return true;
    }
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The maximum number of events that are printed at once.
const BATCH: usize = 256;

/// Runs the agent in `project`, with defaults for settings that its files lack; with `--each`, the
/// agents of a file.
pub(crate) async fn start(
    args: AgentArgs,
    project: TrustedProject,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if args.each.is_some() {
        if global.trust.is_some() {
            return Err(Failure::usage(
                "--trust is for the files of one folder, and cannot be combined with --each",
            )
            .with_hint(
                "run `sandbox trust` in the project: the same files are then trusted in its work trees",
            ));
        }
        return each::each(&args, &project, printer).await;
    }
    let agent = agent_of(args.agent_task.agent.as_deref(), &project)?;
    let project = project.for_agent(&agent, args.agent_bin.is_some(), &args.task.image, environment)?;
    let settings = project.task(&args.task, WORKSPACE, Some(&agent), global, environment, printer).await?;
    let agent_settings = AgentSettings::new(args, &project, printer)?;
    if agent_settings.prompt.is_none() {
        let kind = environment.text("TERM").unwrap_or_default();
        return typed(settings, agent_settings, kind, printer).await;
    }
    self::agent(settings, agent_settings, printer).await
}

/// Runs the agent with its own screen.
async fn typed(
    settings: TaskSettings,
    agent: AgentSettings,
    kind: &str,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let mut context = match RunContext::open(&settings, printer).await? {
        Ok(context) => context,
        Err(status) => return Ok(status),
    };
    let executed = typed::execute(&mut context, agent, kind).await;
    let finished = context.close(executed).await?;
    report_blocked(&finished.folder, printer);
    if let Some(session) = &finished.value {
        printer.progress(&format!("session {session}; continue with --resume"));
    }
    Ok(finished.status)
}

/// Runs the agent once.
async fn agent(
    settings: TaskSettings,
    agent: AgentSettings,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let output = agent.output;
    let messages = (agent.input == AgentInput::StreamJson).then(|| Messages::begin(printer));
    let mut context = match RunContext::open(&settings, printer).await? {
        Ok(context) => context,
        Err(status) => return Ok(status),
    };
    let executed = execute(&mut context, agent, messages).await;
    let mut finished = context.close(executed).await?;
    if let (AgentOutput::Json, Some(result)) = (output, &finished.value) {
        finished.workspace.add_imported(&result.git);
        printer.line(json(result, Some(&finished.workspace)));
    }
    if output == AgentOutput::Text {
        report_blocked(&finished.folder, printer);
    }
    Ok(finished.status)
}

/// Runs the agent; the value is its result, if it ended.
pub(super) async fn execute(
    context: &mut RunContext<'_>,
    mut agent: AgentSettings,
    messages: Option<Messages>,
) -> Result<Executed<Option<ExecutionResult>>, Failure> {
    let (settings, printer) = (context.settings, context.printer);
    let (result, why) = loop {
        let (result, why) = attempt(context, &agent, messages.as_ref()).await?;
        let is_taken =
            matches!(&result, Some(Err(SandboxError::Session(SessionError::Busy { .. })))) && why.is_none();
        match agent.session.next() {
            // Another agent works in the project, so this one gets a separate session.
            Some(next) if is_taken && agent.resume == Resume::None => agent.session = next,
            _ => break (result, why),
        }
    };
    if let Some(Ok(result)) = &result {
        if let Some(mut record) = RunRecord::read(context.folder()) {
            record.came_to(result);
            record.write(context.folder())?;
        }
        tamper_report::report(&result.tampered, &settings.root, printer);
        report_imported(&result.git, &settings.root, printer);
    }
    let is_over = matches!(result, Some(Ok(_)));
    let (status, value) = match (result, why) {
        // As with a command, the reason for the stop takes precedence over the exit code.
        (_, Some(why)) => {
            if !settings.is_bundle {
                printer.progress("stopped; continue with --resume");
            }
            (why, None)
        }
        (Some(Err(SandboxError::Container(ContainerError::ProgramNotFound { .. }))), None)
            if agent.agent_bin.is_none() && settings.agent_program.is_none() =>
        {
            printer.failure(&no_program(&agent.agent));
            (ExitStatus::NotFound, None)
        }
        (Some(Err(error)), None) => return Err(error.into()),
        (Some(Ok(result)), None) => {
            let mut status = report(&result, &agent.agent, agent.output, settings.is_bundle, printer);
            let not_written = tamper_report::not_written(&result.tampered, &settings.root);
            if let Some(failure) = &not_written {
                printer.failure(failure);
            }
            let is_incomplete = not_written.is_some() || !result.git.failed.is_empty();
            if status == ExitStatus::Success && is_incomplete {
                status = ExitStatus::Infrastructure;
            }
            (status, Some(result))
        }
        (None, None) => (ExitStatus::Infrastructure, None),
    };
    Ok(Executed { status, is_over, value })
}

/// Runs the agent with the session that `agent` names.
async fn attempt(
    context: &mut RunContext<'_>,
    agent: &AgentSettings,
    messages: Option<&Messages>,
) -> Result<(Option<Result<ExecutionResult, SandboxError>>, Option<ExitStatus>), Failure> {
    let (settings, printer) = (context.settings, context.printer);
    let (task, prompt) = prepared(context, agent, settings.env.clone()).await?;
    let name = agent.agent.name();
    let record = context.record(&["agent".to_owned(), name.to_owned()]);
    let record = record.with_session(name, agent.session.dir(), &agent.session.context);
    record.with_prompt(agent.prompt.as_deref()).write(context.folder())?;
    if let Some(owner) = Owner::of_this_process() {
        let taken = owner.take_input(false, false).await;
        taken.map_err(Failure::doing("create the streams of the run"))?;
    }
    let (closed, activity) = (Notify::new(), context.activity.clone());
    let output = agent.output;
    let mut execution = match messages {
        None => task.execute(prompt),
        Some(messages) => task.converse(prompt, messages.stream()),
    };
    // The board of the questions.
    let board = settings.questions.as_ref().filter(|_| Owner::of_this_process().is_none());
    let _asking = board.map(|board| Asking::begin(board, printer));
    let answer = Box::pin(async {
        let mut stdout = tokio::io::stdout();
        // A slow reader slows the agent down: only events that are already there are printed at
        // once.
        let mut batches = (&mut execution).ready_chunks(BATCH);
        let mut status = StatusLine::new(output, printer);
        let mut ticks = tokio::time::interval(TICK);
        let mut streamed = Streamed::default();
        loop {
            let events = tokio::select! {
                events = batches.next() => events,
                _ = ticks.tick(), if status.is_shown() => {
                    let screen = board.map(Board::try_screen);
                    if !matches!(screen, Some(None)) {
                        status.show();
                    }
                    continue;
                }
            };
            let Some(events) = events else { break };
            // The agent must not overwrite a question.
            let _screen = OptionFuture::from(board.map(Board::screen)).await;
            for event in &events {
                status.saw(event);
                transcript::note(event, &activity);
            }
            status.remove();
            let texts =
                events.iter().filter_map(|event| shown(event, &agent.agent, output, &mut streamed, printer));
            let text: String = texts.collect();
            printer.wrote(&text);
            if stdout.write_all(text.as_bytes()).await.is_err() || stdout.flush().await.is_err() {
                closed.notify_one();
                break;
            }
            status.show();
        }
        drop(status);
        if let Some(end) = streamed.end() {
            printer.wrote(&end);
            let _ = stdout.write_all(end.as_bytes()).await.and(stdout.flush().await);
        }
        execution.await
    });
    Ok(context.watch(answer, Controlled::Task(task), name, &closed).await)
}

/// The prepared task and its input.
async fn prepared(
    context: &RunContext<'_>,
    agent: &AgentSettings,
    env: ContainerEnv,
) -> Result<(Task, Prompt), Failure> {
    let settings = context.settings;
    let mut spec = spec(context, agent).env(env);
    spec = spec.git_identity(settings.git_identity.clone());
    if let Some(ssh) = &settings.ssh {
        spec = spec.ssh_signer(ssh.signer().await?);
    }
    let task = context.sandbox.create_task(spec)?;
    let prompt = prompt(agent, &task)?;
    Ok((task, prompt))
}

/// The text that is printed for an event.
fn shown(
    event: &StreamEvent,
    agent: &Agent,
    output: AgentOutput,
    streamed: &mut Streamed,
    printer: Printer,
) -> Option<String> {
    if let (EventKind::Stalled(stall), AgentOutput::Text) = (event.kind(), output) {
        let seconds = Duration::from_millis(stall.silent_ms).as_secs_f64();
        printer.warning(format_args!("{agent} has reported nothing for {seconds} s"));
    }
    match output {
        AgentOutput::StreamJson => serde_json::to_string(event).ok().map(|line| line + "\n"),
        AgentOutput::Text if printer.is_live() => streamed.lines(event, printer),
        AgentOutput::Text | AgentOutput::Json => None,
    }
}

fn spec(context: &RunContext<'_>, agent: &AgentSettings) -> TaskSpec {
    let settings = context.settings;
    let mut spec = TaskSpec::new(&agent.session.context, context.image.clone(), agent.session.dir())
        .network(settings.network.clone())
        .limits(settings.limits)
        .isolation(settings.isolation.clone())
        .working_dir(&settings.working_dir)
        .network_log_dir(context.folder())
        .briefing(agent.briefing)
        .agent(agent.agent.clone());
    for mount in &settings.mounts {
        spec = spec.mount(mount.clone());
    }
    for (name, content) in &settings.state_files {
        spec = spec.state_file(name, content.clone());
    }
    if let Some(renewal) = &settings.renewal {
        spec = spec.on_network_event(renewal.observer());
    }
    if let Some(program) = agent.agent_bin.as_ref().or(settings.agent_program.as_ref()) {
        spec = spec.agent_binary(program);
    }
    if let Some((after, then)) = agent.stall {
        spec = spec.stall(after, then);
    }
    spec
}

fn prompt(agent: &AgentSettings, task: &Task) -> Result<Prompt, Failure> {
    let text = agent.prompt.as_ref().map_or_else(Prompt::typed, Prompt::new);
    let mut prompt = text.resume(resumed(&agent.resume, task)?).arguments(agent.arguments.clone());
    prompt = prompt.partial_text(agent.output == AgentOutput::Text && agent.streams);
    if let Some(model) = &agent.model {
        prompt = prompt.model(model);
    }
    if let Some(turns) = agent.max_turns {
        prompt = prompt.max_turns(turns);
    }
    if let Some(dollars) = agent.max_budget {
        prompt = prompt.max_budget_usd(dollars);
    }
    Ok(prompt)
}

fn resumed(resume: &Resume, task: &Task) -> Result<Option<String>, Failure> {
    Ok(match resume {
        Resume::None => None,
        Resume::Id(id) => {
            let session = task.session_store().load().map_err(sandbox::SandboxError::from)?;
            let is_known = session.is_none_or(|session| {
                session.replies.is_empty() || session.replies.iter().any(|reply| reply.session_id == *id)
            });
            if !is_known {
                return Err(Failure::new(format!("unknown session `{}`", sanitize_name(id))).with_hint(
                    "omit the id to resume the most recent session; each run prints its session's id at its end",
                ));
            }
            Some(id.clone())
        }
        Resume::Last => {
            let last = task.session_store().session_id_for_resume().map_err(sandbox::SandboxError::from)?;
            let none =
                || Failure::new("no session to resume").with_hint("omit --resume to start a new session");
            Some(last.ok_or_else(none)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_after_resume_is_not_an_id() {
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let owned = |text: Option<&str>| text.map(str::to_owned);
        for (resume, prompt, expected, text) in [
            (None, Some("do"), Resume::None, Some("do")),
            (Some(""), Some("do"), Resume::Last, Some("do")),
            (Some(""), None, Resume::Last, None),
            (Some("and now"), None, Resume::Last, Some("and now")),
            (Some("-"), None, Resume::Last, Some("-")),
            (Some(id), None, Resume::Id(id.to_owned()), None),
            (Some(id), Some("do"), Resume::Id(id.to_owned()), Some("do")),
            (Some("custom"), Some("do"), Resume::Id("custom".to_owned()), Some("do")),
        ] {
            let read = resume_and_prompt(owned(resume), owned(prompt));
            assert_eq!(read, (expected, owned(text)), "{resume:?} {prompt:?}");
        }
        assert!(!is_session_id("0f8fad5b-d9cb-469f-a165-7086772895zz") && !is_session_id(""));
    }
}
