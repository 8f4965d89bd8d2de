//! An agent in a bundle: its flags as they are packed, and its settings where the bundle runs.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use sandbox::{Agent, ExecutionResult, OnStall};
use sandbox_bundle::{AgentSummary, AgentTask, Stall};

use super::{AgentSettings, Resume, input, stall};
use crate::args::{AgentInput, AgentOutput, AgentTaskArgs};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::session_folder::SessionFolder;

/// Millionths in a US dollar.
const MICRODOLLARS: f64 = 1e6;
/// The largest number that every reader of JSON has exactly.
const MOST: u64 = (1 << 53) - 1;

/// What a bundle says about `agent` and its prompt, which is read from stdin if it is not an argument.
pub(in crate::commands) fn packed(args: &AgentTaskArgs, agent: Agent) -> Result<AgentTask, Failure> {
    if (args.max_turns.is_some() || args.max_budget.is_some()) && !agent.is_claude() {
        return Err(Failure::usage("--max-turns and --max-budget are for Claude Code"));
    }
    let checked = agent.check_arguments(&args.arguments);
    checked.map_err(|problem| Failure::usage(format!("arguments: {problem}")))?;
    let stall = stall(args.stall, args.stop_on_stall)?.and_then(|(time, then)| {
        Some(Stall { after: NonZeroU64::new(time.as_secs())?, stop: then == OnStall::Stop })
    });
    Ok(AgentTask {
        agent,
        prompt: input::prompt(args.prompt.clone(), AgentInput::Text)?,
        model: args.model.clone(),
        max_turns: args.max_turns,
        max_budget_microdollars: args
            .max_budget
            .map(|dollars| NonZeroU64::new(microdollars(dollars)).unwrap_or(NonZeroU64::MIN)),
        stall,
        briefing: !args.no_briefing,
        arguments: args.arguments.clone(),
    })
}

impl AgentSettings {
    /// The settings of `task` of a bundle, in a new session in the folder `session`.
    pub(in crate::commands) fn of_bundle(
        task: &AgentTask,
        session: PathBuf,
        agent_bin: Option<PathBuf>,
        printer: Printer,
    ) -> Self {
        let AgentTask {
            agent,
            prompt,
            model,
            max_turns,
            max_budget_microdollars,
            stall,
            briefing,
            arguments,
        } = task;
        let stall = stall.map(|Stall { after, stop }| {
            (Duration::from_secs(after.get()), if stop { OnStall::Stop } else { OnStall::Report })
        });
        Self {
            agent: agent.clone(),
            prompt: Some(prompt.clone()),
            resume: Resume::None,
            model: model.clone(),
            session: SessionFolder::named(session, agent),
            agent_bin,
            max_turns: *max_turns,
            max_budget: max_budget_microdollars.map(dollars),
            stall,
            briefing: *briefing,
            arguments: arguments.clone(),
            input: AgentInput::Text,
            output: AgentOutput::Text,
            streams: printer.streams(),
        }
    }
}

/// The outcome of an agent, and what it used, as its container reported it.
pub(in crate::commands) fn summary(result: &ExecutionResult) -> AgentSummary {
    AgentSummary {
        outcome: result.outcome,
        turns: result.num_turns.min(MOST),
        microdollars: microdollars(result.total_cost_usd),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an impossible amount becomes the nearest one"
)]
fn microdollars(dollars: f64) -> u64 {
    ((dollars * MICRODOLLARS).round() as u64).min(MOST)
}

#[expect(clippy::cast_precision_loss, reason = "nobody has such an amount")]
fn dollars(microdollars: NonZeroU64) -> f64 {
    microdollars.get() as f64 / MICRODOLLARS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::StallTime;

    #[test]
    fn agent_runs_as_it_was_packed() {
        let agent: Agent = "claude".parse().unwrap();
        let args = AgentTaskArgs {
            agent: None,
            model: Some("opus".to_owned()),
            max_turns: 3.try_into().ok(),
            max_budget: Some(2.5),
            stall: StallTime::After(Duration::from_mins(5)),
            stop_on_stall: true,
            no_briefing: true,
            prompt: Some("fix it".to_owned()),
            arguments: vec!["--tools".to_owned(), "Read".to_owned()],
        };
        let task = packed(&args, agent.clone()).unwrap();
        let settings =
            AgentSettings::of_bundle(&task, "/s".into(), Some("/bin/x".into()), Printer::new(0, true));
        assert_eq!((settings.agent, settings.prompt, settings.model), (agent, args.prompt, args.model));
        assert_eq!((settings.max_turns, settings.max_budget), (args.max_turns, args.max_budget));
        assert_eq!(settings.stall, Some((Duration::from_mins(5), OnStall::Stop)));
        assert_eq!((settings.briefing, settings.arguments), (false, args.arguments));
        assert_eq!((settings.session.dir(), settings.agent_bin), ("/s".into(), Some("/bin/x".into())));
        assert_eq!(settings.resume, Resume::None);
    }

    #[test]
    fn amount_is_the_same_after_a_bundle() {
        for amount in [0.000_001, 0.07, 2.5, 1_234.567_89] {
            let packed = NonZeroU64::new(microdollars(amount)).unwrap();
            assert!((dollars(packed) - amount).abs() < f64::EPSILON * amount, "{amount}");
        }
        assert_eq!((microdollars(-1.0), microdollars(f64::NAN), microdollars(f64::INFINITY)), (0, 0, MOST));
    }
}
