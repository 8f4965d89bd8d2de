//! `agent`: Claude Code, its session, and its answer for people or programs.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::PathBuf;

use claude_output::{StreamEvent, Usage};
use futures_util::StreamExt as _;
use sandbox::{ExecutionResult, Outcome, Prompt, Task, TaskSpec};
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

use crate::args::{AgentArgs, AgentOutput};
use crate::config::WorkspaceMode;
use crate::control::{ControlSocket, Controlled};
use crate::credentials::Renewal;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::launch::{Executed, Stage, on_stage, watched};
use crate::printer::Printer;
use crate::settings::{Project, TaskSettings};
use crate::tamper_report;
use crate::workspace_copy::WorkspaceReport;

use super::transcript;

/// What an agent works on by default.
pub(crate) const WORKSPACE: WorkspaceMode = WorkspaceMode::Auto;

/// Where a session is kept, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionFolder {
    dir: PathBuf,
    context: String,
}

impl SessionFolder {
    /// The project's own, unless a folder was named; a folder belongs to no project, so that it can be moved.
    pub(crate) fn new(named: Option<PathBuf>, project: &Project) -> Self {
        match named {
            Some(dir) => Self { dir, context: "agent".to_owned() },
            None => Self { dir: project.places.session(&project.key), context: project.key.clone() },
        }
    }
}

/// What is asked of Claude Code, and how its answer is printed.
#[derive(Debug)]
pub(crate) struct AgentSettings {
    prompt: String,
    resume: Resume,
    model: Option<String>,
    session: SessionFolder,
    claude_bin: Option<PathBuf>,
    briefing: bool,
    arguments: Vec<String>,
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
        let session = SessionFolder::new(session, project);
        let (resume, prompt) = resume_and_prompt(args.resume, args.prompt);
        let prompt = match prompt {
            Some(prompt) if prompt != "-" => prompt,
            None if io::stdin().is_terminal() => {
                return Err(Failure::usage("there is no prompt")
                    .with_hint("write it as the last argument, or `-` to type it"));
            }
            _ => {
                let mut prompt = String::new();
                io::stdin()
                    .read_to_string(&mut prompt)
                    .map_err(Failure::doing("read the prompt from stdin"))?;
                prompt
            }
        };
        if prompt.trim().is_empty() {
            return Err(Failure::usage("the prompt is empty"));
        }
        let claude_bin = args.claude_bin.map(|path| {
            let found = project.resolver.find(&path);
            let found = found.map_err(Failure::doing(format!("find `{}`", path.display())));
            // The engine would mount the link, which leads nowhere in the container.
            found.map(|found| found.path().to_owned())
        });
        Ok(Self {
            prompt,
            resume,
            model: args.model,
            session,
            claude_bin: claude_bin.transpose()?,
            briefing: !args.no_briefing,
            arguments: args.arguments,
            output: args.output,
        })
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

/// Whether `text` has the form of a UUID.
fn is_session_id(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Events that are printed at once at most.
const BATCH: usize = 256;

/// Runs Claude Code once.
pub(crate) async fn agent(
    settings: TaskSettings,
    agent: AgentSettings,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let output = agent.output;
    let work = async |stage: Stage<'_>| Box::pin(execute(stage, &settings, agent, printer)).await;
    let finished = Box::pin(on_stage(&settings, printer, work)).await?;
    if let (AgentOutput::Json, Some(Some(result))) = (output, &finished.value) {
        printer.line(json(result, &finished.workspace));
    }
    Ok(finished.status)
}

async fn execute(
    stage: Stage<'_>,
    settings: &TaskSettings,
    agent: AgentSettings,
    printer: Printer,
) -> Result<Executed<Option<ExecutionResult>>, Failure> {
    let mut spec = spec(&stage, settings, &agent);
    if let Some(ssh) = &settings.ssh {
        spec = spec.ssh_signer(ssh.signer().await?);
    }
    let task = stage.sandbox.create_task(spec)?;
    let mut prompt =
        Prompt::new(agent.prompt).resume(resumed(agent.resume, &task)?).arguments(agent.arguments);
    if let Some(model) = agent.model {
        prompt = prompt.model(model);
    }
    let closed = Notify::new();
    let output = agent.output;
    let mut execution = task.execute(prompt);
    let control = stage.control(settings, Controlled::Task(task.clone()), "claude".to_owned(), printer);
    let _renewing = Renewal::begin(settings.renewal.as_ref(), Controlled::Task(task.clone()), printer);
    let answer = Box::pin(async {
        let mut stdout = tokio::io::stdout();
        // Claude Code waits for a reader that is slow: only what is there already is printed at once.
        let mut batches = (&mut execution).ready_chunks(BATCH);
        while let Some(events) = batches.next().await {
            let texts = events.iter().filter_map(|event| shown(event, output, printer));
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
    if let Some(Ok(result)) = &result {
        tamper_report::report(&result.tampered, &settings.root, printer);
    }
    let is_over = matches!(result, Some(Ok(_)));
    let (status, value) = match (result, why) {
        // As with a command: that it had to be stopped says more than how it then ended.
        (_, Some(why)) => (why, None),
        (Some(Err(error)), None) => return Err(error.into()),
        (Some(Ok(result)), None) => (report(&result, output, printer), Some(result)),
        (None, None) => (ExitStatus::Infrastructure, None),
    };
    Ok(Executed { status, is_over, value })
}

/// What is printed of an event.
fn shown(event: &StreamEvent, output: AgentOutput, printer: Printer) -> Option<String> {
    match output {
        AgentOutput::StreamJson => serde_json::to_string(event).ok().map(|line| line + "\n"),
        AgentOutput::Text if printer.is_live() => transcript::lines(event, printer),
        AgentOutput::Text | AgentOutput::Json => None,
    }
}

fn spec(stage: &Stage<'_>, settings: &TaskSettings, agent: &AgentSettings) -> TaskSpec {
    let mut spec = TaskSpec::new(&agent.session.context, stage.image.clone(), &agent.session.dir)
        .env(settings.env.clone())
        .network(settings.network.clone())
        .limits(settings.limits)
        .isolation(settings.isolation.clone())
        .working_dir(settings.working_dir)
        .network_log_dir(stage.run)
        .briefing(agent.briefing);
    for mount in &settings.mounts {
        spec = spec.mount(mount.clone());
    }
    if let Some(program) = &agent.claude_bin {
        spec = spec.claude_binary(program);
    }
    spec
}

fn resumed(resume: Resume, task: &Task) -> Result<Option<String>, Failure> {
    Ok(match resume {
        Resume::None => None,
        Resume::Id(id) => Some(id),
        Resume::Last => {
            let last = task.session_store().session_id_for_resume().map_err(sandbox::SandboxError::from)?;
            let none =
                || Failure::new("there is no session to resume").with_hint("leave --resume out to begin one");
            Some(last.ok_or_else(none)?)
        }
    })
}

/// What `--output json` prints; it changes its version when a field changes its meaning or goes away.
#[derive(Debug, Serialize)]
struct AgentReport<'a> {
    version: u32,
    outcome: Outcome,
    session_id: Option<&'a str>,
    response_text: &'a str,
    error_summary: Option<&'a str>,
    usage: &'a Usage,
    /// US dollars.
    cost: f64,
    turns: u64,
    duration_ms: u64,
    exit_code: i64,
    /// Where what was planted was; it is elsewhere now.
    planted: Vec<String>,
    /// How many events the session has not kept.
    missing_events: u64,
    /// What became of the changes in the copy of the work tree.
    workspace: &'a WorkspaceReport,
}

fn report(result: &ExecutionResult, output: AgentOutput, printer: Printer) -> ExitStatus {
    match output {
        AgentOutput::Text if !printer.is_live() && !result.response_text.is_empty() => {
            printer.line(&result.response_text);
        }
        // The object comes when it is known what became of the changes.
        AgentOutput::Text | AgentOutput::Json | AgentOutput::StreamJson => {}
    }
    if !result.missing.is_none() && output != AgentOutput::Json {
        printer.warning(format_args!(
            "the session is without {} events ({} bytes): there were too many",
            result.missing.events, result.missing.bytes
        ));
    }
    if result.outcome != Outcome::Success && output != AgentOutput::Json {
        let summary = result.error_summary.as_deref().unwrap_or("Claude Code did not say why");
        printer.warning(format_args!("{}: {}", result.outcome.as_str(), crate::printer::sanitize(summary)));
        if let Some(hint) = hint(result.outcome, summary) {
            printer.hint(hint);
        }
    }
    status(result.outcome)
}

fn json(result: &ExecutionResult, workspace: &WorkspaceReport) -> String {
    let report = AgentReport {
        version: 1,
        outcome: result.outcome,
        session_id: result.session_id.as_deref(),
        response_text: &result.response_text,
        error_summary: result.error_summary.as_deref(),
        usage: &result.usage,
        cost: result.total_cost_usd,
        turns: result.num_turns,
        duration_ms: result.duration_ms,
        exit_code: result.exit_code,
        planted: result
            .tampered
            .iter()
            .filter(|thing| !thing.is_left_in_place())
            .map(|thing| thing.path.display().to_string())
            .collect(),
        missing_events: result.missing.events,
        workspace,
    };
    // Texts and numbers always have a form in JSON.
    serde_json::to_string(&report).unwrap_or_default()
}

fn status(outcome: Outcome) -> ExitStatus {
    match outcome {
        Outcome::Success => ExitStatus::Success,
        Outcome::Timeout => ExitStatus::Timeout,
        _ => ExitStatus::Negative,
    }
}

fn hint(outcome: Outcome, summary: &str) -> Option<&'static str> {
    match outcome {
        // The proxy's own refusal, which Claude Code takes for the API's; it names the fix.
        _ if summary.contains("network-allowlist.yaml") => None,
        Outcome::AuthenticationFailed => Some(CREDENTIALS),
        _ if summary.contains("/login") || summary.contains("API key") => Some(CREDENTIALS),
        Outcome::PromptTooLong | Outcome::SessionCorrupted => {
            Some("begin a fresh session: leave --resume out")
        }
        Outcome::RateLimited | Outcome::ApiUnavailable => {
            Some("try again later; `sandbox logs` shows what the API answered")
        }
        Outcome::Timeout => Some("give it more time with --timeout"),
        _ => None,
    }
}

const CREDENTIALS: &str = "Claude Code gets no credentials by itself: write `masked_secrets: {ANTHROPIC_API_KEY: {preset: anthropic}}` into \
                           .sandbox/sandbox.yaml, and allow api.anthropic.com";

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

    #[test]
    fn a_refusal_of_our_own_is_not_blamed_on_the_credentials() {
        let refused = "API Error: 403 api.anthropic.com is not allowed: to allow it, add it in .sandbox/network-allowlist.yaml";
        assert_eq!(hint(Outcome::AuthenticationFailed, refused), None);
        assert_eq!(hint(Outcome::AuthenticationFailed, "API Error: 401"), Some(CREDENTIALS));
        assert_eq!(hint(Outcome::ContainerFailed, "Not logged in · Please run /login"), Some(CREDENTIALS));
        assert_eq!(hint(Outcome::ContainerFailed, "crashed"), None);
    }

    #[test]
    fn outcomes_have_their_codes() {
        for (outcome, code) in [
            (Outcome::Success, 0),
            (Outcome::Timeout, 124),
            (Outcome::PromptTooLong, 1),
            (Outcome::RateLimited, 1),
            (Outcome::Stopped, 1),
            (Outcome::ContainerFailed, 1),
        ] {
            assert_eq!(status(outcome).code(), code, "{outcome:?}");
        }
    }
}
