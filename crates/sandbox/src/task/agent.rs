//! Headless Claude Code as a task.

use std::sync::Arc;
use std::time::Duration;

use allowlist::Allowlist;
use claude_output::{EventParser, ParsedLine, StreamEvent};

use crate::container::{Chunk, Running};
use crate::context::Shared;
use crate::egress::RunningProxy;
use crate::error::SandboxError;
use crate::network_log::NetworkLog;
use crate::spec::{Mount, TaskSpec};
use sandbox_session::{ReplyEnd, ReplyWriter, SessionStore};

use super::aftermath;
use super::capture::Capture;
use super::drive::{self, End};
use super::launch::{self, Program, Started};
use super::live::LiveProxy;
use super::mounts;
use super::outcome::{self, Ended, Evidence, Outcome};
use super::result::{ExecutionResult, Timings};
use crate::stop_switch::StopSwitch;

/// What stdout may come to before the task is stopped, in MiB. What is kept of it has bounds of its own; a runaway agent is not to be read for
/// ever.
const OUTPUT_LIMIT_MIB: u64 = 512;
const OUTPUT_LIMIT: u64 = OUTPUT_LIMIT_MIB * 1024 * 1024;

/// The longest line that may be an event: 32 MiB. The API takes no larger request, so nothing of a conversation is longer.
const LINE_LIMIT: usize = 32 * 1024 * 1024;

/// What Claude Code is asked.
#[derive(Debug, Clone)]
pub struct Prompt {
    text: String,
    resume: Option<String>,
    model: Option<String>,
}

impl Prompt {
    /// A prompt for a fresh session and the session store's model, `sonnet` where it has none.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            resume: None,
            model: None,
        }
    }

    /// Resumes the session of this id; `None` begins a fresh one.
    #[must_use]
    pub fn resume(mut self, session_id: Option<String>) -> Self {
        self.resume = session_id;
        self
    }

    /// The model: an alias such as `opus`, or a full name.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }
}

/// Headless Claude Code in a container of its own, with a session that survives it. [`Sandbox::create_task`] makes one.
///
/// [`Sandbox::create_task`]: crate::Sandbox::create_task
#[derive(Debug)]
pub struct Task {
    shared: Arc<Shared>,
    spec: TaskSpec,
    store: SessionStore,
    switch: Arc<StopSwitch>,
    live: LiveProxy,
}

impl Task {
    pub(crate) fn new(shared: Arc<Shared>, mut spec: TaskSpec) -> Result<Self, SandboxError> {
        spec.validate()?;
        spec.launch
            .resolve_mounts(&mounts::resolver(shared.state_dir(), &spec.launch.mounts)?)?;
        let store = SessionStore::open(&spec.session_dir, &spec.launch.context)?;
        let switch = shared.new_switch();
        Ok(Self {
            shared,
            spec,
            store,
            switch,
            live: LiveProxy::default(),
        })
    }

    /// The opaque key that groups session, network and container names.
    #[must_use]
    pub fn execution_context_id(&self) -> &str {
        &self.spec.launch.context
    }

    /// The session's history.
    #[must_use]
    pub fn session_store(&self) -> &SessionStore {
        &self.store
    }

    /// The log of the task's network activity; `None` without a folder for it.
    #[must_use]
    pub fn network_log(&self) -> Option<NetworkLog> {
        self.spec.launch.network_log_dir.as_deref().map(NetworkLog::new)
    }

    /// Runs Claude Code with `prompt` on its stdin and waits for its end. `on_event` gets each event as it arrives.
    ///
    /// The session store is updated with each event: whatever happens, the events so far and the session id are kept. What is kept is
    /// bounded, see [`ExecutionResult::missing`]; an execution is stopped when its output comes to 512 MiB.
    ///
    /// # Errors
    ///
    /// Only when the infrastructure fails, or when an execution of this task is already running. Timeouts, API errors and crashes
    /// of Claude Code are outcomes.
    pub async fn execute(
        &self,
        prompt: Prompt,
        mut on_event: impl FnMut(&StreamEvent),
    ) -> Result<ExecutionResult, SandboxError> {
        self.execute_with(prompt, async |event| on_event(event)).await
    }

    /// Likewise; while `on_event` is busy, Claude Code waits.
    ///
    /// # Errors
    ///
    /// As [`Task::execute`].
    #[tracing::instrument(name = "execution", skip_all, fields(context = self.spec.launch.context))]
    pub async fn execute_with(
        &self,
        prompt: Prompt,
        mut on_event: impl AsyncFnMut(&StreamEvent),
    ) -> Result<ExecutionResult, SandboxError> {
        let _running = self.switch.begin()?;
        let model = self.model(&prompt)?;
        let reply = self.store.begin(&prompt.text)?;
        let program = self.program(&prompt, &model);
        let started = Box::pin(launch::start(&self.shared, &self.spec.launch, program)).await?;
        let Started {
            running:
                Running {
                    stdin,
                    output,
                    handle,
                },
            proxy,
            mut timings,
            since,
            hold,
        } = started;
        self.live.replace(proxy.as_ref().map(RunningProxy::control));
        let feeding = tokio::spawn(drive::feed(std::io::Cursor::new(prompt.text.into_bytes()), stdin));
        let mut reading = Reading::new(reply);
        let end = drive::drive(
            output,
            &handle,
            self.spec.launch.limits.timeout,
            &self.switch,
            async |chunk| reading.take(chunk, &mut on_event).await,
        )
        .await;
        timings.exited_ms = launch::elapsed_ms(since);
        tracing::info!(ms = timings.exited_ms, "ended");
        self.live.replace(None);
        feeding.abort();
        let planted = aftermath::of(&self.shared, handle, proxy, hold).await;
        let result = match end {
            Ok(end) => reading.finish(&end, timings, &mut on_event).await,
            Err(error) => Err(error),
        };
        let result = aftermath::or_told(result, &planted)?;
        Ok(ExecutionResult { planted, ..result })
    }

    /// Puts `policy` in force for the running execution, from its next request on.
    ///
    /// # Errors
    ///
    /// When nothing with a network sandbox is running.
    pub async fn set_policy(&self, policy: Allowlist) -> Result<(), SandboxError> {
        self.live.set_policy(policy).await
    }

    /// Cuts the running execution off: its connections are closed, and every further request is refused.
    ///
    /// # Errors
    ///
    /// When nothing with a network sandbox is running.
    pub async fn quarantine(&self) -> Result<(), SandboxError> {
        self.live.quarantine().await
    }

    /// Stops a running execution: SIGTERM, and SIGKILL after 5 s. Tells whether there was one; returns when it has ended.
    pub async fn stop(&self) -> bool {
        self.switch.stop().await
    }

    /// The prompt's model, else the session's, else `sonnet`; it becomes the session's.
    fn model(&self, prompt: &Prompt) -> Result<String, SandboxError> {
        if let Some(model) = &prompt.model {
            self.store.set_model(model)?;
            return Ok(model.clone());
        }
        Ok(self.store.model()?.unwrap_or_else(|| "sonnet".to_owned()))
    }

    fn program(&self, prompt: &Prompt, model: &str) -> Program {
        let mut mounts = vec![Mount::read_write(self.store.claude_dir(), TaskSpec::CLAUDE_STATE)];
        let claude = match &self.spec.claude_binary {
            Some(binary) => {
                mounts.push(Mount::read_only_at(binary, TaskSpec::CLAUDE_PROGRAM));
                TaskSpec::CLAUDE_PROGRAM
            }
            None => "claude",
        };
        let mut command = vec![claude.to_owned()];
        if let Some(session) = &prompt.resume {
            command.extend(["--resume".to_owned(), session.clone()]);
        }
        let fixed = [
            "--model",
            model,
            "-p",
            "--dangerously-skip-permissions",
            "--output-format",
            "stream-json",
            "--verbose",
        ];
        command.extend(fixed.map(str::to_owned));
        Program {
            command,
            mounts,
            ..Program::default()
        }
    }
}

/// What has been read of an execution so far.
struct Reading {
    parser: EventParser,
    reply: ReplyWriter,
    text_lines: Vec<String>,
    stdout: Capture,
    stderr: Capture,
    bytes: u64,
    failure: Option<SandboxError>,
}

impl Reading {
    /// Lines of stdout that are not JSON: enough to tell what an old or broken program said.
    const TEXT_LINES: usize = 200;
    /// What is kept of such a line, in bytes: its beginning tells what it is.
    const TEXT_LINE: usize = 4096;

    fn new(reply: ReplyWriter) -> Self {
        Self {
            parser: EventParser::with_line_limit(LINE_LIMIT),
            reply,
            text_lines: Vec::new(),
            stdout: Capture::new(Capture::DEFAULT_LIMIT),
            stderr: Capture::new(Capture::DEFAULT_LIMIT),
            bytes: 0,
            failure: None,
        }
    }

    /// Takes a chunk in; `false` when the process has to be stopped.
    async fn take(&mut self, chunk: Chunk, on_event: &mut impl AsyncFnMut(&StreamEvent)) -> bool {
        match chunk {
            Chunk::Stdout(bytes) => {
                self.stdout.push(&bytes);
                self.bytes += bytes.len() as u64;
                for line in self.parser.push(&bytes) {
                    self.keep(line, on_event).await;
                }
            }
            Chunk::Stderr(bytes) => self.stderr.push(&bytes),
        }
        self.failure.is_none() && self.bytes <= OUTPUT_LIMIT
    }

    async fn keep(&mut self, line: ParsedLine, on_event: &mut impl AsyncFnMut(&StreamEvent)) {
        match line {
            ParsedLine::Event(event) => {
                on_event(&event).await;
                if let Err(error) = self.reply.add(event) {
                    self.failure.get_or_insert(error.into());
                }
            }
            ParsedLine::Text(text) if self.text_lines.len() < Self::TEXT_LINES => {
                let end = text.floor_char_boundary(Self::TEXT_LINE);
                self.text_lines
                    .push(text.get(..end).unwrap_or_default().to_owned());
            }
            ParsedLine::Text(_) => {}
        }
    }

    /// Classifies what was read and closes the session's reply.
    async fn finish(
        mut self,
        end: &End,
        timings: Timings,
        on_event: &mut impl AsyncFnMut(&StreamEvent),
    ) -> Result<ExecutionResult, SandboxError> {
        if let Some(last) = self.parser.finish() {
            self.keep(last, on_event).await;
        }
        let too_much = self.bytes > OUTPUT_LIMIT;
        let stderr = self.stderr.into_bytes();
        let stderr_text = String::from_utf8_lossy(&stderr);
        let events = self.reply.events();
        let outcome = outcome::classify(&Evidence {
            ended: if too_much { Ended::OutputLimit } else { end.ended },
            exit_code: end.exit.code,
            events,
            text_lines: &self.text_lines,
            stderr: &stderr_text,
        });
        let failed = outcome != Outcome::Success;
        let error_summary = if failed && too_much {
            Some(format!(
                "stopped, since its output came to {OUTPUT_LIMIT_MIB} MiB"
            ))
        } else if failed {
            claude_output::extract_error_summary(events, &stderr_text).or_else(|| {
                let has_result = events.iter().any(|event| event.as_result().is_some());
                let cut_off = end.ended == Ended::Itself && !has_result;
                cut_off.then(|| format!("it ended with exit code {} and without a result", end.exit.code))
            })
        } else {
            None
        };
        let session_id = claude_output::extract_session_id(events).map(str::to_owned);
        let measured = Duration::from_millis(timings.exited_ms.saturating_sub(timings.started_ms));
        let reply = self.reply.finish(ReplyEnd {
            is_error: failed,
            measured,
        })?;
        match self.failure {
            Some(error) => Err(error),
            None => Ok(ExecutionResult {
                outcome,
                session_id,
                response_text: reply.response_text,
                error_summary,
                events: reply.events,
                missing: reply.missing,
                duration_ms: reply.duration_ms,
                total_cost_usd: reply.total_cost_usd,
                num_turns: reply.num_turns,
                usage: reply.usage,
                stdout: self.stdout.into_bytes(),
                stderr,
                exit_code: end.exit.code,
                planted: Vec::new(),
                timings,
            }),
        }
    }
}
