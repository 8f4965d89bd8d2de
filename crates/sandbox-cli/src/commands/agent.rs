//! `agent`: an agent, its session, and its answer for people or programs.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use claude_output::{EventKind, StreamEvent};
use futures_util::StreamExt as _;
use sandbox::session::SessionError;
use sandbox::{Agent, ExecutionResult, OnStall, Prompt, SandboxError, Task, TaskSpec};
use sandbox_logins::LoginKind;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

use crate::args::{AgentArgs, AgentInput, AgentOutput, StallTime};
use crate::config::WorkspaceMode;
use crate::control::{ControlSocket, Controlled};
use crate::credentials::Renewal;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::launch::{Executed, Stage, on_stage, watched};
use crate::printer::Printer;
use crate::session_folder::SessionFolder;
use crate::settings::{Project, TaskSettings};
use crate::tamper_report;

use super::transcript;

mod input;
mod report;

use input::Messages;
use report::{json, report};

/// What an agent works on by default.
pub(crate) const WORKSPACE: WorkspaceMode = WorkspaceMode::Auto;

/// What is asked of an agent, and how its answer is printed.
#[derive(Debug)]
pub(crate) struct AgentSettings {
    agent: Agent,
    prompt: String,
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
}

/// Which session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Resume {
    None,
    Last,
    Id(String),
}

impl AgentSettings {
    /// Reads the prompt, from stdin where it was not given.
    pub(crate) fn new(args: AgentArgs, project: &Project) -> Result<Self, Failure> {
        let session = args.session_dir.as_deref().map(std::path::absolute).transpose()?;
        let agent = agent_of(args.agent.as_deref(), project)?;
        let session = SessionFolder::new(session, project, &agent);
        let (resume, prompt) = resume_and_prompt(args.resume, args.prompt);
        let prompt = input::prompt(prompt, args.input)?;
        let agent_bin = args.agent_bin.map(|path| {
            let found = project.resolver.find(&path);
            let found = found.map_err(Failure::doing(format!("find `{}`", path.display())));
            // The engine would mount the link, which leads nowhere in the container.
            found.map(|found| found.path().to_owned())
        });
        let then = if args.stop_on_stall { OnStall::Stop } else { OnStall::Report };
        if args.stop_on_stall && matches!(args.stall, StallTime::Off) {
            return Err(Failure::usage("--stop-on-stall needs a time").with_hint("leave `--stall off` out"));
        }
        let stall = match args.stall {
            StallTime::Off => None,
            StallTime::After(time) => Some((time, then)),
        };
        let session = match &resume {
            Resume::None => session,
            Resume::Last => session.most_recent()?,
            Resume::Id(id) => session.with_session(id)?,
        };
        Ok(Self {
            agent,
            prompt,
            resume,
            model: args.model,
            session,
            agent_bin: agent_bin.transpose()?,
            max_turns: args.max_turns,
            max_budget: args.max_budget,
            stall,
            briefing: !args.no_briefing,
            arguments: args.arguments,
            input: args.input,
            output: args.output,
        })
    }
}

/// The login that the agent of `args` may have.
pub(crate) fn login(args: &AgentArgs, project: &Project) -> Result<Option<LoginKind>, Failure> {
    Ok(login_of(&agent_of(args.agent.as_deref(), project)?))
}

/// The login that `agent` may have.
pub(crate) fn login_of(agent: &Agent) -> Option<LoginKind> {
    agent.name().parse().ok()
}

/// The flag's agent, else that of `sandbox.yaml`, else Claude Code.
fn agent_of(flag: Option<&str>, project: &Project) -> Result<Agent, Failure> {
    match flag {
        Some(name) => name.parse().map_err(|error: sandbox::UnknownAgent| Failure::usage(error.to_string())),
        None => Ok(project.agent()),
    }
}

/// `--resume` takes an id or nothing, so a prompt that follows it is taken for the id; only what looks like one is.
fn resume_and_prompt(resume: Option<String>, prompt: Option<String>) -> (Resume, Option<String>) {
    match (resume, prompt) {
        (None, prompt) => (Resume::None, prompt),
        (Some(id), prompt) if id.is_empty() => (Resume::Last, prompt),
        (Some(text), None) if !is_session_id(&text) => (Resume::Last, Some(text)),
        (Some(id), prompt) => (Resume::Id(id), prompt),
    }
}

/// Whether `text` has the form of a UUID, or of an id of `OpenCode`.
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

/// Events that are printed at once at most.
const BATCH: usize = 256;

/// Runs the agent once.
pub(crate) async fn agent(
    settings: TaskSettings,
    agent: AgentSettings,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let output = agent.output;
    let messages = (agent.input == AgentInput::StreamJson).then(|| Messages::begin(printer));
    let work = async |stage: Stage<'_>| Box::pin(execute(stage, &settings, agent, messages, printer)).await;
    let finished = Box::pin(on_stage(&settings, printer, work)).await?;
    if let (AgentOutput::Json, Some(Some(result))) = (output, &finished.value) {
        printer.line(json(result, &finished.workspace));
    }
    Ok(finished.status)
}

async fn execute(
    mut stage: Stage<'_>,
    settings: &TaskSettings,
    mut agent: AgentSettings,
    messages: Option<Messages>,
    printer: Printer,
) -> Result<Executed<Option<ExecutionResult>>, Failure> {
    let (result, why) = loop {
        let (result, why) =
            Box::pin(attempt(&mut stage, settings, &agent, messages.as_ref(), printer)).await?;
        let is_taken =
            matches!(&result, Some(Err(SandboxError::Session(SessionError::Busy { .. })))) && why.is_none();
        match agent.session.next() {
            // Another agent works in the project: this one gets a session of its own.
            Some(next) if is_taken && agent.resume == Resume::None => agent.session = next,
            _ => break (result, why),
        }
    };
    if let Some(Ok(result)) = &result {
        tamper_report::report(&result.tampered, &settings.root, printer);
    }
    let is_over = matches!(result, Some(Ok(_)));
    let (status, value) = match (result, why) {
        // As with a command: that it had to be stopped says more than how it then ended.
        (_, Some(why)) => (why, None),
        (Some(Err(error)), None) => return Err(error.into()),
        (Some(Ok(result)), None) => {
            let mut status = report(&result, &agent.agent, agent.output, printer);
            if let Some(failure) = tamper_report::not_written(&result.tampered, &settings.root) {
                printer.failure(&failure);
                status = if status == ExitStatus::Success { ExitStatus::Infrastructure } else { status };
            }
            (status, Some(result))
        }
        (None, None) => (ExitStatus::Infrastructure, None),
    };
    Ok(Executed { status, is_over, value })
}

/// Runs the agent with the session that `agent` names.
async fn attempt(
    stage: &mut Stage<'_>,
    settings: &TaskSettings,
    agent: &AgentSettings,
    messages: Option<&Messages>,
    printer: Printer,
) -> Result<(Option<Result<ExecutionResult, SandboxError>>, Option<ExitStatus>), Failure> {
    let mut spec = spec(stage, settings, agent);
    spec = spec.git_identity(settings.git_identity.clone());
    if let Some(ssh) = &settings.ssh {
        spec = spec.ssh_signer(ssh.signer().await?);
    }
    let task = stage.sandbox.create_task(spec)?;
    let prompt = prompt(agent, &task)?;
    let closed = Notify::new();
    let output = agent.output;
    let mut execution = match messages {
        None => task.execute(prompt),
        Some(messages) => task.converse(prompt, messages.stream()),
    };
    let control =
        stage.control(settings, Controlled::Task(task.clone()), agent.agent.name().to_owned(), printer);
    let _renewing = Renewal::begin(settings.renewal.as_ref(), Controlled::Task(task.clone()), printer);
    let answer = Box::pin(async {
        let mut stdout = tokio::io::stdout();
        // The agent waits for a reader that is slow: only what is there already is printed at once.
        let mut batches = (&mut execution).ready_chunks(BATCH);
        while let Some(events) = batches.next().await {
            let texts = events.iter().filter_map(|event| shown(event, &agent.agent, output, printer));
            let text: String = texts.collect();
            if stdout.write_all(text.as_bytes()).await.is_err() || stdout.flush().await.is_err() {
                closed.notify_one();
                break;
            }
        }
        execution.await
    });
    let (result, why) = watched(answer, async || task.stop().await, stage.interrupts, &closed).await;
    let why = why.or(ControlSocket::end(control).await);
    Ok((result, why))
}

/// What is printed of an event.
fn shown(event: &StreamEvent, agent: &Agent, output: AgentOutput, printer: Printer) -> Option<String> {
    if let (EventKind::Stalled(stall), AgentOutput::Text) = (event.kind(), output) {
        let seconds = Duration::from_millis(stall.silent_ms).as_secs_f64();
        printer.warning(format_args!("{agent} has reported nothing for {seconds} s"));
    }
    match output {
        AgentOutput::StreamJson => serde_json::to_string(event).ok().map(|line| line + "\n"),
        AgentOutput::Text if printer.is_live() => transcript::lines(event, printer),
        AgentOutput::Text | AgentOutput::Json => None,
    }
}

fn spec(stage: &Stage<'_>, settings: &TaskSettings, agent: &AgentSettings) -> TaskSpec {
    let mut spec = TaskSpec::new(&agent.session.context, stage.image.clone(), agent.session.dir())
        .env(settings.env.clone())
        .network(settings.network.clone())
        .limits(settings.limits)
        .isolation(settings.isolation.clone())
        .working_dir(settings.working_dir)
        .network_log_dir(stage.run)
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
    if let Some(program) = &agent.agent_bin {
        spec = spec.agent_binary(program);
    }
    if let Some((after, then)) = agent.stall {
        spec = spec.stall(after, then);
    }
    spec
}

fn prompt(agent: &AgentSettings, task: &Task) -> Result<Prompt, Failure> {
    let mut prompt =
        Prompt::new(&agent.prompt).resume(resumed(&agent.resume, task)?).arguments(agent.arguments.clone());
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
        Resume::Id(id) => Some(id.clone()),
        Resume::Last => {
            let last = task.session_store().session_id_for_resume().map_err(sandbox::SandboxError::from)?;
            let none =
                || Failure::new("there is no session to resume").with_hint("leave --resume out to begin one");
            Some(last.ok_or_else(none)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_after_resume_is_no_id() {
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
