//! `agent` without a prompt, on a terminal: the agent's own screen, in its session.

use sandbox::session::SessionError;
use sandbox::{SandboxError, TerminalSize};
use tokio::sync::Notify;

use crate::commands::run::{ended, input, pass, terminal_kind};
use crate::control::Controlled;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::owner::Owner;
use crate::run_context::{Executed, RunContext};
use crate::terminal;

use super::report::no_program;
use super::{AgentSettings, Resume, prepared};

/// Runs the agent until it has ended; `kind` is the value of `TERM`.
pub(super) async fn execute(
    context: &mut RunContext<'_>,
    mut agent: AgentSettings,
    kind: &str,
) -> Result<Executed<Option<String>>, Failure> {
    let size = terminal::size();
    if let Some(owner) = Owner::of_this_process() {
        // From then on, the terminal belongs to the program.
        let taken = owner.take_input(true, true).await;
        taken.map_err(Failure::doing("create the streams of the run"))?;
    }
    loop {
        let executed = attempt(context, &agent, (size, kind)).await?;
        match (executed, agent.session.next()) {
            // Another agent works in the project: this one gets a session of its own.
            (None, Some(next)) if agent.resume == Resume::None => agent.session = next,
            (Some(executed), _) => return Ok(executed),
            (None, _) => {
                return Err(Failure::new("another agent uses this session")
                    .with_hint("wait for it to end, or name another folder with --session-dir"));
            }
        }
    }
}

/// `None` if another agent uses the session.
async fn attempt(
    context: &mut RunContext<'_>,
    agent: &AgentSettings,
    (size, kind): (TerminalSize, &str),
) -> Result<Option<Executed<Option<String>>>, Failure> {
    let (settings, printer) = (context.settings, context.printer);
    let mut env = settings.env.clone();
    if !env.variables().contains_key("TERM") {
        env = env.with("TERM", terminal_kind(kind));
    }
    let (task, prompt) = prepared(context, agent, env).await?;
    let name = agent.agent.name();
    let record = context.record(&["agent".to_owned(), name.to_owned()]);
    record.with_session(name, agent.session.dir(), &agent.session.context).write(context.folder())?;
    let closed = Notify::new();
    let execution = task.interact(prompt, size, input()?);
    let mut failure = None;
    let passed = pass(execution, None, &closed, &mut failure, printer);
    let (mut result, why) = context.watch(passed, Controlled::Task(task.clone()), name, &closed).await;
    if let (Some(Err(SandboxError::Session(SessionError::Busy { .. }))), None) = (&result, why) {
        return Ok(None);
    }
    let is_over = matches!(result, Some(Ok(_)));
    let status = ended(&mut result, why, failure, settings, printer)?;
    if status == ExitStatus::Command(127) && agent.agent_bin.is_none() && settings.agent_program.is_none() {
        // It was reported on the terminal inside of the container.
        printer.failure(&no_program(&agent.agent));
    }
    // The last reply is that of this execution.
    let session = task.session_store().load().ok().flatten();
    let session = session.and_then(|mut session| session.replies.pop()).map(|reply| reply.session_id);
    Ok(Some(Executed { status, is_over, value: session.filter(|id| !id.is_empty()) }))
}
