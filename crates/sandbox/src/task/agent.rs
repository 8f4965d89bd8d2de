//! A headless agent as a task.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use claude_output::StreamEvent;
use futures_util::Stream;
use sandbox_session::SessionStore;
use tokio::io::AsyncRead;

use crate::agent::{Agent, Request, Translator};
use crate::context::Shared;
use crate::error::SandboxError;
use crate::spec::{InvalidSpec, Mount, TaskSpec};

use super::aftermath;
use super::arguments;
use super::briefing;
use super::controls::controls;
use super::execution::{Execution, Owner};
use super::launch::Program;
use super::messages::{self, LastMessage, Message};
use super::reading::Reading;
use super::result::ExecutionResult;
use super::runner::{Finished, Runner};
use super::watchdog::Watchdog;

/// What an agent is asked.
#[derive(Debug, Clone)]
pub struct Prompt {
    text: String,
    resume: Option<String>,
    model: Option<String>,
    max_turns: Option<NonZeroU32>,
    max_budget_usd: Option<f64>,
    arguments: Vec<String>,
}

impl Prompt {
    /// A prompt for a fresh session and the session store's model; where it has none, `sonnet` for Claude Code, and what another agent chooses.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            resume: None,
            model: None,
            max_turns: None,
            max_budget_usd: None,
            arguments: Vec::new(),
        }
    }

    /// Resumes the session of this id; `None` begins a fresh one.
    #[must_use]
    pub fn resume(mut self, session_id: Option<String>) -> Self {
        self.resume = session_id;
        self
    }

    /// The model: an alias such as `opus`, or a full name. It becomes the session's: later prompts without one use it.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// How many turns the model may take: [`Outcome::TurnLimitReached`](crate::Outcome::TurnLimitReached). Claude Code counts them. Default:
    /// no limit of ours.
    #[must_use]
    pub fn max_turns(mut self, turns: NonZeroU32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// What it may cost, in US dollars at list price: [`Outcome::BudgetExhausted`](crate::Outcome::BudgetExhausted). Claude Code counts after
    /// each answer of the model, so the last one may exceed it. It must be above 0. Default: no limit of ours.
    #[must_use]
    pub fn max_budget_usd(mut self, dollars: f64) -> Self {
        self.max_budget_usd = Some(dollars);
        self
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
            arguments::check_session(self.resume.as_deref())?;
        }
        match self.max_budget_usd {
            Some(dollars) if !dollars.is_finite() || dollars <= 0.0 => {
                Err(InvalidSpec::new("max_budget_usd", "must be a finite number of dollars greater than 0"))
            }
            _ => Ok(()),
        }
    }

    /// More arguments for the agent; for Claude Code such as `--mcp-config`, `--tools`, `--settings` or `--append-system-prompt`. Paths are those of the
    /// container. Default none.
    ///
    /// The execution is an error with those that the sandbox sets itself (`--output-format`, `--resume`, `--model` and the like), and with
    /// one that holds the real value of a credential.
    #[must_use]
    pub fn arguments<T: Into<String>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }
}

/// What a caller sends into a conversation.
type Messages = Box<dyn Stream<Item = Message> + Send + Unpin>;

/// A headless agent in a container of its own, with a session that survives it. [`Sandbox::create_task`] makes one.
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

    /// The opaque key that groups session, network and container names.
    #[must_use]
    pub fn execution_context_id(&self) -> &str {
        &self.0.spec.launch.context
    }

    /// The session's history.
    #[must_use]
    pub fn session_store(&self) -> &SessionStore {
        &self.0.store
    }

    /// Runs the agent in the background with `prompt` on its stdin. Read the [`Execution`] for its events as they come, await it for its
    /// result.
    ///
    /// The session store is updated with each event: whatever happens, the events so far and the session id are kept. What is kept is
    /// bounded, see [`ExecutionResult::missing`]; an execution is stopped when its output comes to 512 MiB.
    ///
    /// When the result is there, the agent is dead, the session is on the disk, and what was tampered with in protected mounts is out of the
    /// way. Without such mounts and without a copy of a work tree, its container, proxy and network are removed a moment later;
    /// [`Sandbox::shutdown`](crate::Sandbox::shutdown) waits for that.
    ///
    /// The result is an error only when the infrastructure fails, when the prompt has an invalid budget or argument, or one that the agent has no counterpart of, or when an execution of this
    /// task is already running. Timeouts, API errors and crashes of the agent are outcomes.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn execute(&self, prompt: Prompt) -> Execution<StreamEvent, ExecutionResult> {
        self.spawn(prompt, None)
    }

    /// Like [`execute`](Self::execute), and sends each of `messages` into the running conversation as it comes: during a turn, where the model sees
    /// it after the tool call of the moment, or after one, where it begins another. Claude Code ends when `messages` has ended and the last of them
    /// is answered. The events have an answer for each turn; the result is that of the last one.
    ///
    /// While `messages` may go on, neither the grace after a result nor silence after one ends the execution: its time limit does.
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

    fn spawn(&self, prompt: Prompt, messages: Option<Messages>) -> Execution<StreamEvent, ExecutionResult> {
        let inner = Arc::clone(&self.0);
        Execution::spawn(
            &self.0.runner.switch,
            1,
            |result| &result.tampered,
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
            return Err(InvalidSpec::new("messages", format!("{agent} takes none while it runs")).into());
        }
        arguments::check(&prompt.arguments, agent)?;
        self.spec.launch.refuse_values_in("arguments", &prompt.arguments)?;
        let model = self.model(&prompt)?;
        let reply = self.store.begin(&prompt.text)?;
        for (name, content) in &self.spec.state_files {
            reply.put_state(agent.name(), name, content)?;
        }
        let program = self.program(&prompt, model.as_deref(), messages.is_some());
        let resumes = prompt.resume.is_some();
        let (events, gone) = owner.split();
        let mut watchdog = Watchdog::new(self.spec.result_grace, self.spec.stall);
        let text = self.input(prompt);
        let input: Box<dyn AsyncRead + Send + Unpin> = match messages {
            None => Box::new(std::io::Cursor::new(text.into_bytes())),
            Some(messages) => {
                let last = LastMessage::default();
                watchdog = watchdog.with_messages(Arc::clone(&last));
                Box::new(messages::input(text, messages, last))
            }
        };
        let mut reading = Reading::new(reply, events, watchdog, resumes, Translator::new(agent));
        let Finished { end, timings, tampered, traffic } =
            self.runner.run(&self.spec.launch, program, input, &mut reading, gone).await?;
        let result = match end {
            Ok(end) => reading.finish(&end, timings).await,
            Err(error) => Err(error),
        };
        let result = aftermath::logged_on_error(result, &tampered)?;
        Ok(ExecutionResult { tampered, traffic, ..result })
    }

    /// The prompt's model, else the session's, else `sonnet` for Claude Code; it becomes the session's.
    fn model(&self, prompt: &Prompt) -> Result<Option<String>, SandboxError> {
        if let Some(model) = &prompt.model {
            self.store.set_model(model)?;
            return Ok(Some(model.clone()));
        }
        Ok(self.store.model()?.or_else(|| self.spec.agent.is_claude().then(|| "sonnet".to_owned())))
    }

    /// What goes to its stdin.
    fn input(&self, prompt: Prompt) -> String {
        if self.spec.briefing && self.spec.agent.is_briefed_by_prompt() {
            return format!("{}\n\n{}", briefing::briefing(&self.spec.launch), prompt.text);
        }
        prompt.text
    }

    fn program(&self, prompt: &Prompt, model: Option<&str>, converses: bool) -> Program {
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
        let arguments = if agent.is_claude() {
            self.claude_arguments(prompt, model.unwrap_or_default(), converses)
        } else {
            let briefing = self.spec.briefing.then(|| briefing::briefing(&self.spec.launch));
            agent.command_line(&Request {
                session: prompt.resume.as_deref(),
                model,
                briefing: briefing.as_deref(),
                arguments: &prompt.arguments,
            })
        };
        let command = std::iter::once(program).chain(arguments).collect();
        Program { command, mounts, ..Program::default() }
    }

    fn claude_arguments(&self, prompt: &Prompt, model: &str, converses: bool) -> Vec<String> {
        let mut command = Vec::new();
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
        if converses {
            // What was sent is among the events, and so in the session.
            command.extend(["--input-format", "stream-json", "--replay-user-messages"].map(str::to_owned));
        }
        if let Some(turns) = prompt.max_turns {
            command.extend(["--max-turns".to_owned(), turns.to_string()]);
        }
        if let Some(dollars) = prompt.max_budget_usd {
            command.extend(["--max-budget-usd".to_owned(), dollars.to_string()]);
        }
        command.extend(if self.spec.briefing {
            arguments::with_briefing(&prompt.arguments, &briefing::briefing(&self.spec.launch))
        } else {
            prompt.arguments.clone()
        });
        command
    }
}

#[cfg(test)]
mod tests;
