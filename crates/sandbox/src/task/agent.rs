//! A headless agent as a task.

use std::io::Cursor;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use claude_output::StreamEvent;
use futures_util::Stream;
use rand::RngExt as _;
use sandbox_agents::{
    Agent, CLAUDE_ANSWERS, Request, Translator, Typed, claude_answers, claude_session_file, is_session_id,
};
use sandbox_podman::TerminalSize;
use sandbox_session::SessionStore;
use sandbox_workspace::Findings;
use tokio::io::AsyncRead;

use crate::container::Chunk;
use crate::context::Shared;
use crate::error::SandboxError;
use crate::spec::{InvalidSpec, Mount, TaskSpec};

use super::briefing;
use super::command::{Input, Kept};
use super::controls::controls;
use super::execution::{Execution, Owner};
use super::interact::{self, SessionRecorder};
use super::launch::Program;
use super::messages::{self, LastMessage, Message};
use super::reading::Reading;
use super::result::{CommandResult, ExecutionResult};
use super::runner::{Finished, Runner};
use super::teardown;
use super::watchdog::Watchdog;

/// The request to an agent.
#[derive(Debug, Clone)]
pub struct Prompt {
    text: String,
    resume: Option<String>,
    model: Option<String>,
    max_turns: Option<NonZeroU32>,
    max_budget_usd: Option<f64>,
    arguments: Vec<String>,
    partial: bool,
}

impl Prompt {
    /// A prompt for a fresh session, with the model of the session store. Without one there, the
    /// model is `sonnet` for Claude Code, and the default of any other agent.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            resume: None,
            model: None,
            max_turns: None,
            max_budget_usd: None,
            arguments: Vec::new(),
            partial: false,
        }
    }

    /// No prompt: a user types, see [`Task::interact`].
    #[must_use]
    pub fn typed() -> Self {
        Self::new("")
    }

    /// Resumes the session with this id; `None` starts a fresh one.
    #[must_use]
    pub fn resume(mut self, session_id: Option<String>) -> Self {
        self.resume = session_id;
        self
    }

    /// The model: an alias such as `opus`, or a full name. It becomes the session's model, for
    /// later prompts without one.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The maximum number of turns of the model:
    /// [`Outcome::TurnLimitReached`](crate::Outcome::TurnLimitReached). Claude Code counts them.
    /// Default: no limit by the sandbox.
    #[must_use]
    pub fn max_turns(mut self, turns: NonZeroU32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// The maximum cost, in US dollars at list price:
    /// [`Outcome::BudgetExhausted`](crate::Outcome::BudgetExhausted). Claude Code checks it after
    /// each answer of the model, so the last one may exceed it. It must be above 0. Default: no
    /// limit by the sandbox.
    #[must_use]
    pub fn max_budget_usd(mut self, dollars: f64) -> Self {
        self.max_budget_usd = Some(dollars);
        self
    }

    /// Checks that it can start a session in which a user types.
    fn validate_typed(&self, agent: &Agent) -> Result<(), InvalidSpec> {
        let refused =
            |field| Err(InvalidSpec::new(field, "has no effect in an interactive session; leave it out"));
        if !self.text.is_empty() {
            return refused("prompt");
        }
        if self.max_turns.is_some() {
            return refused("max_turns");
        }
        if self.max_budget_usd.is_some() {
            return refused("max_budget_usd");
        }
        self.validate(agent)?;
        self.validate_session()
    }

    fn validate(&self, agent: &Agent) -> Result<(), InvalidSpec> {
        let has_none = |field, what: &str| {
            Err(InvalidSpec::new(field, format!("{agent} has no limit of {what}; leave it out")))
        };
        if !agent.is_claude() {
            if self.max_turns.is_some() {
                return has_none("max_turns", "turns");
            }
            if self.max_budget_usd.is_some() {
                return has_none("max_budget_usd", "its cost");
            }
            self.validate_session()?;
        }
        match self.max_budget_usd {
            Some(dollars) if !dollars.is_finite() || dollars <= 0.0 => {
                Err(InvalidSpec::new("max_budget_usd", "must be a finite number of dollars greater than 0"))
            }
            _ => Ok(()),
        }
    }

    fn validate_session(&self) -> Result<(), InvalidSpec> {
        if self.resume.as_deref().is_none_or(is_session_id) {
            return Ok(());
        }
        let problem = "is not a session id: it has characters other than letters, digits, `_` and `-`";
        Err(InvalidSpec::new("resume", problem))
    }

    fn validate_arguments(&self, agent: &Agent) -> Result<(), InvalidSpec> {
        let checked = agent.check_arguments(&self.arguments);
        checked.map_err(|problem| InvalidSpec::new("arguments", problem.to_string()))
    }

    /// Whether Claude Code's text is also reported while it is written, in
    /// [`EventKind::Partial`](claude_output::EventKind::Partial). These events are not kept in the
    /// session and the result, which have the whole text. Other agents send none. Default: no.
    #[must_use]
    pub fn partial_text(mut self, partial: bool) -> Self {
        self.partial = partial;
        self
    }

    /// Further arguments for the agent, for Claude Code for example `--mcp-config`, `--tools`,
    /// `--settings` or `--append-system-prompt`. Paths are those of the container. Default: none.
    ///
    /// It is an error to pass arguments that the sandbox sets itself (`--output-format`,
    /// `--resume`, `--model` and the like), or that hold the real value of a credential.
    #[must_use]
    pub fn arguments<T: Into<String>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }
}

/// The mode of use of an agent.
enum Use {
    /// It answers one prompt.
    Prompt,
    /// It gets messages while it runs.
    Messages,
    /// A user types, on a terminal of this size; `fresh` is the id of a new session, for agents
    /// that accept an id.
    Typed { fresh: Option<String>, terminal: TerminalSize },
}

/// A random UUID (version 4).
fn fresh_session() -> String {
    let random: u128 = rand::rng().random();
    let bits = random & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{bits:032x}");
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| digits.get(group).unwrap_or_default());
    groups.join("-")
}

/// Messages of the caller for a running conversation.
type Messages = Box<dyn Stream<Item = Message> + Send + Unpin>;

/// A headless agent in a container of its own, with a session that outlives the container. Created
/// by [`Sandbox::create_task`].
///
/// [`Sandbox::create_task`]: crate::Sandbox::create_task
#[derive(Debug, Clone)]
pub struct Task(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    spec: TaskSpec,
    store: SessionStore,
    runner: Runner,
}

impl Task {
    pub(crate) fn new(shared: Arc<Shared>, mut spec: TaskSpec) -> Result<Self, SandboxError> {
        spec.validate()?;
        spec.set_default_variables();
        let runner = Runner::new(shared, &mut spec.launch)?;
        let context = &spec.launch.context;
        let store = SessionStore::of_agent(&spec.session_dir, context, spec.agent.name(), Agent::NAMES)?;
        Ok(Self(Arc::new(Inner { spec, store, runner })))
    }

    /// The opaque key that groups sessions, networks and container names.
    #[must_use]
    pub fn execution_context_id(&self) -> &str {
        &self.0.spec.launch.context
    }

    /// The session's history.
    #[must_use]
    pub fn session_store(&self) -> &SessionStore {
        &self.0.store
    }

    /// Runs the agent in the background with `prompt` on its stdin. Read the [`Execution`] for its
    /// events as they come, await it for its result.
    ///
    /// The session store is updated with each event, so that the events so far and the session id
    /// survive any failure. The kept events are bounded, see [`ExecutionResult::missing`]; an
    /// execution is stopped when its output reaches 512 MiB.
    ///
    /// When the result is available, the agent is dead, the session is on disk, and tampered files
    /// in protected mounts have been moved away. Without such mounts and without a copy of a work
    /// tree, the container, proxy and network are removed in the background;
    /// [`Sandbox::shutdown`](crate::Sandbox::shutdown) waits for that.
    ///
    /// The result is an error only when the infrastructure fails, when the prompt has an invalid
    /// budget or argument, or one that the agent does not support, or when an execution of this
    /// task is already running. Timeouts, API errors and crashes of the agent are outcomes.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn execute(&self, prompt: Prompt) -> Execution<StreamEvent, ExecutionResult> {
        self.spawn(prompt, None)
    }

    /// Like [`execute`](Self::execute), but also sends each of `messages` into the running
    /// conversation as it comes: during a turn, where the model sees it after the current tool
    /// call, or after one, where it starts another. Claude Code ends when `messages` has ended and
    /// the last message is answered. The events have an answer for each turn; the result is that of
    /// the last turn.
    ///
    /// While further `messages` may come, the execution is not ended by the grace period or by
    /// silence after a result, only by its time limit.
    ///
    /// ```no_run
    /// # async fn example(task: sandbox::Task) -> Result<(), sandbox::SandboxError> {
    /// use futures_util::stream;
    /// use sandbox::{Message, Prompt};
    ///
    /// // Usually the receiver of a channel.
    /// let messages = stream::iter([Message::from("and the other one")]);
    /// let result = task.converse(Prompt::new("fix the failing test"), messages).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn converse(
        &self,
        prompt: Prompt,
        messages: impl Stream<Item = Message> + Send + Unpin + 'static,
    ) -> Execution<StreamEvent, ExecutionResult> {
        self.spawn(prompt, Some(Box::new(messages)))
    }

    /// Runs the agent on a terminal of this size, with its own screen, which the [`Execution`]
    /// yields as it is drawn; `input` is the keyboard input. The questions of a first start are
    /// answered in advance. The result is that of a command: how the program ended.
    ///
    /// Other executions can continue the session: Claude Code's session id is in the session store
    /// as soon as the first message was sent. The conversation and its cost are in the agent's own
    /// state only. The caller sets `TERM`.
    ///
    /// The result is an error as for [`execute`](Self::execute), and for a `prompt` with a text, a
    /// budget or a number of turns.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn interact(
        &self,
        prompt: Prompt,
        terminal: TerminalSize,
        input: Input,
    ) -> Execution<Chunk, CommandResult> {
        let inner = Arc::clone(&self.0);
        Execution::spawn(
            &self.0.runner.switch,
            Input::CHUNKS,
            |result| teardown::log(&result.tampered, &result.git),
            |owner| async move { inner.interact(prompt, terminal, input, owner).await },
        )
    }

    fn spawn(&self, prompt: Prompt, messages: Option<Messages>) -> Execution<StreamEvent, ExecutionResult> {
        let inner = Arc::clone(&self.0);
        Execution::spawn(
            &self.0.runner.switch,
            1,
            |result| teardown::log(&result.tampered, &result.git),
            |owner| async move { inner.execute(prompt, messages, owner).await },
        )
    }
}

controls!(Task);

impl Inner {
    #[tracing::instrument(name = "execution", skip_all, fields(context = self.spec.launch.context))]
    async fn execute(
        &self,
        prompt: Prompt,
        messages: Option<Messages>,
        owner: Owner<StreamEvent>,
    ) -> Result<ExecutionResult, SandboxError> {
        let agent = &self.spec.agent;
        prompt.validate(agent)?;
        if messages.is_some() && !agent.is_claude() {
            return Err(InvalidSpec::new(
                "messages",
                format!("{agent} does not support messages to a running conversation"),
            )
            .into());
        }
        prompt.validate_arguments(agent)?;
        self.spec.launch.refuse_values_in("arguments", &prompt.arguments)?;
        let model = self.model(&prompt)?;
        let reply = self.store.begin(&prompt.text)?;
        for (name, content) in &self.spec.state_files {
            reply.put_state(agent.name(), name, content)?;
        }
        let how = if messages.is_some() { Use::Messages } else { Use::Prompt };
        let program = self.program(&prompt, model.as_deref(), &how);
        let (resumes, partial) = (prompt.resume.is_some(), prompt.partial);
        let (events, gone) = owner.split();
        let mut watchdog = Watchdog::new(self.spec.result_grace, self.spec.stall);
        let text = self.input(prompt);
        let input: Box<dyn AsyncRead + Send + Unpin> = match messages {
            None if agent.is_claude() => Box::new(Cursor::new(Message::from(text).to_line())),
            None => Box::new(Cursor::new(text.into_bytes())),
            Some(messages) => {
                let last = LastMessage::default();
                watchdog = watchdog.with_messages(Arc::clone(&last));
                Box::new(messages::input(text, messages, last))
            }
        };
        let mut reading = Reading::new(reply, events, watchdog, resumes, Translator::new(agent));
        reading.skips_partial = partial;
        let Finished { end, timings, findings, traffic } =
            self.runner.run(&self.spec.launch, program, input, &mut reading, gone).await?;
        let result = match end {
            Ok(end) => reading.finish(&end, timings).await,
            Err(error) => Err(error),
        };
        let result = teardown::logged_on_error(result, &findings)?;
        let Findings { tampered, git, .. } = findings;
        Ok(ExecutionResult { tampered, git, traffic, ..result })
    }

    #[tracing::instrument(name = "execution", skip_all, fields(context = self.spec.launch.context))]
    async fn interact(
        &self,
        prompt: Prompt,
        terminal: TerminalSize,
        input: Input,
        owner: Owner<Chunk>,
    ) -> Result<CommandResult, SandboxError> {
        let agent = &self.spec.agent;
        prompt.validate_typed(agent)?;
        prompt.validate_arguments(agent)?;
        self.spec.launch.refuse_values_in("arguments", &prompt.arguments)?;
        let model = self.model(&prompt)?;
        let reply = self.store.begin(&prompt.text)?;
        let folder = self.working_dir();
        if agent.is_claude() {
            let key = self.spec.launch.env.variables().get("ANTHROPIC_API_KEY").map(String::as_str);
            let before = interact::answers_of(&self.store);
            let answers = claude_answers(before.as_deref(), folder, key);
            reply.put_state(agent.name(), CLAUDE_ANSWERS, &answers)?;
        }
        for (name, content) in agent.interactive_files() {
            reply.put_state(agent.name(), name, content.as_bytes())?;
        }
        for (name, content) in &self.spec.state_files {
            reply.put_state(agent.name(), name, content)?;
        }
        let fresh = agent.is_claude().then(fresh_session);
        let session = prompt.resume.clone().or(fresh.clone());
        let expected = session.filter(|_| agent.is_claude());
        let expected = expected.map(|id| (id.clone(), claude_session_file(folder, &id)));
        let program = self.program(&prompt, model.as_deref(), &Use::Typed { fresh, terminal });
        let (events, gone) = owner.split();
        let mut output = SessionRecorder::new(Kept::new(events), reply, self.store.clone(), expected);
        let finished =
            self.runner.run(&self.spec.launch, program, input.into_reader(), &mut output, gone).await?;
        let measured = finished.timings.exited_ms.saturating_sub(finished.timings.started_ms);
        let failed = finished.end.as_ref().map_or(true, |end| end.exit.code != 0);
        output.finish(failed, Duration::from_millis(measured))?.result(finished)
    }

    /// The prompt's model, else the session's, else `sonnet` for Claude Code. It becomes the
    /// session's model.
    fn model(&self, prompt: &Prompt) -> Result<Option<String>, SandboxError> {
        if let Some(model) = &prompt.model {
            self.store.set_model(model)?;
            return Ok(Some(model.clone()));
        }
        Ok(self.store.model()?.or_else(|| self.spec.agent.is_claude().then(|| "sonnet".to_owned())))
    }

    /// The agent's stdin.
    fn input(&self, prompt: Prompt) -> String {
        if self.spec.briefing && self.spec.agent.is_briefed_by_prompt() {
            return format!("{}\n\n{}", briefing::briefing(&self.spec.launch), prompt.text);
        }
        prompt.text
    }

    fn program(&self, prompt: &Prompt, model: Option<&str>, how: &Use) -> Program {
        let agent = &self.spec.agent;
        let mut mounts = vec![Mount::read_write(self.store.state_dir(), agent.state())];
        let program = match &self.spec.agent_binary {
            Some(binary) => {
                let mounted = agent.mounted(binary, Path::is_file);
                mounts.push(Mount::read_only_at(mounted.source, mounted.target));
                mounted.program
            }
            None => agent.program().to_owned(),
        };
        let briefing = self.spec.briefing.then(|| briefing::briefing(&self.spec.launch));
        let (typed, fresh) = match how {
            Use::Typed { fresh, .. } => (Some(self.typed()), fresh.as_deref()),
            Use::Prompt | Use::Messages => (None, None),
        };
        let arguments = agent.command_line(&Request {
            session: prompt.resume.as_deref(),
            model,
            briefing: briefing.as_deref(),
            arguments: &prompt.arguments,
            typed,
            fresh,
            messages: matches!(how, Use::Messages),
            partial: prompt.partial,
            max_turns: prompt.max_turns,
            max_budget_usd: prompt.max_budget_usd,
        });
        let command = std::iter::once(program).chain(arguments).collect();
        let terminal = match how {
            Use::Typed { terminal, .. } => Some(*terminal),
            Use::Prompt | Use::Messages => None,
        };
        Program { command, mounts, terminal, ..Program::default() }
    }

    fn typed(&self) -> Typed<'_> {
        let launch = &self.spec.launch;
        let has_key =
            self.spec.agent.credentials().any(|(variable, _)| launch.env.variables().contains_key(variable));
        Typed { folder: self.working_dir(), has_key }
    }

    fn working_dir(&self) -> &str {
        self.spec.launch.working_dir.as_deref().unwrap_or(interact::WORKING_DIR)
    }
}

#[cfg(test)]
mod tests;
