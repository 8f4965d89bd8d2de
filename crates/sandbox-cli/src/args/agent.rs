//! `agent`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use sandbox::Agent;
use serde::{Deserialize, Serialize};

use super::{BackgroundArgs, TaskArgs, task};
use crate::config::time;
use crate::terminal::DetachKeys;

#[derive(Debug, Args)]
#[command(after_help = "\
No configuration is needed: the agent gets a surrogate of the API key in your environment, such as \
ANTHROPIC_API_KEY, and reaches only its API. With a subscription, set CLAUDE_CODE_OAUTH_TOKEN to \
the output of `claude setup-token`, or write `logins: {claude: {}}` into .sandbox/sandbox.yaml. \
Codex reads CODEX_API_KEY, or `logins: {codex: {}}`; Gemini CLI GEMINI_API_KEY, OpenCode \
ANTHROPIC_API_KEY or OPENAI_API_KEY.

Without a prompt, a terminal shows the agent's own interface.

Examples:
  sandbox agent
  sandbox agent \"fix the failing test\"
  sandbox agent --resume \"and now the other one\"
  sandbox agent --agent codex \"fix the failing test\"
  git diff | sandbox agent -
  sandbox agent --each prompts.txt --jobs 4
  sandbox agent \"review the last commit\" -- --tools Read,Grep --mcp-config /workspace/.mcp.json")]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// Resume a session (default: the most recent)
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    #[command(flatten)]
    pub(crate) agent_task: AgentTaskArgs,
    /// Session folder [default: a folder for this project in the state directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) session_dir: Option<PathBuf>,
    /// The agent's program on the host, to mount read-only [default: with the default image the one
    /// in PATH, otherwise the image's]
    #[arg(long, value_name = "PATH", alias = "claude-bin", value_parser = program())]
    pub(crate) agent_bin: Option<PathBuf>,
    /// Input format on stdin
    #[arg(long, value_enum, default_value_t)]
    pub(crate) input: AgentInput,
    /// Output format on stdout
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: AgentOutput,
    /// Run in the background, and print the run's id; `sandbox attach` shows its answer
    #[arg(short, long, conflicts_with = "input")]
    pub(crate) detach: bool,
    /// Run an agent for each line of FILE, a prompt or JSON, each in a work tree of its own; `-`:
    /// stdin
    ///
    /// JSON is an object with `prompt`, and optionally `name`, for the work tree and its branch, and
    /// `model`. The agents run in the background; a table of their outcomes is printed at the end.
    /// The same command continues what was interrupted: prompts whose agent succeeded are skipped.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["prompt", "resume", "input", "session_dir", "worktree", "network_log"]
    )]
    pub(crate) each: Option<PathBuf>,
    /// Agents of --each that run at once
    #[arg(short, long, value_name = "N", requires = "each", default_value = "4")]
    pub(crate) jobs: NonZeroUsize,
    /// Keys that detach from an agent on a terminal; '' disables them
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    pub(crate) detach_keys: DetachKeys,
}

/// An agent and its prompt.
#[derive(Debug, Args)]
pub(crate) struct AgentTaskArgs {
    /// Agent to run [default: `agent` of sandbox.yaml, claude]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Agent::NAMES))]
    pub(crate) agent: Option<String>,
    /// Model, by the agent's name for it, such as opus [default: that of a resumed session; sonnet for
    /// Claude Code]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Maximum number of turns (Claude Code)
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<NonZeroU32>,
    /// Maximum cost in US dollars, at list prices (Claude Code)
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_budget: Option<f64>,
    /// Warn when the agent reports nothing for this long, such as 90s, 15m or 1h; off: never
    #[arg(long, value_name = "TIME", value_parser = stall, default_value = "15m")]
    pub(crate) stall: StallTime,
    /// Stop the agent when it reports nothing for the time of --stall
    #[arg(long)]
    pub(crate) stop_on_stall: bool,
    /// Do not describe the sandbox's limits to the agent, in its system prompt or before the prompt
    #[arg(long)]
    pub(crate) no_briefing: bool,
    /// Prompt. Read from stdin if `-`, or if omitted and stdin is not a terminal
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Extra arguments for the agent; paths are paths in the container
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<String>,
}

/// An agent of `--each`: a line of its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EachTask {
    pub(crate) prompt: String,
    /// The name of its work tree.
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) model: Option<String>,
}

impl FromStr for EachTask {
    type Err = String;

    /// A prompt, or a JSON object.
    fn from_str(line: &str) -> Result<Self, String> {
        let task = if line.starts_with('{') {
            serde_json::from_str(line).map_err(|error| error.to_string())?
        } else {
            Self { prompt: line.to_owned(), name: String::new(), model: None }
        };
        task::work_tree(&task.name).map_err(|rule| format!("`name`: {rule}"))?;
        Ok(task)
    }
}

impl AgentArgs {
    /// Makes these the flags of one agent of `--each`.
    pub(crate) fn be_for(&mut self, task: EachTask) {
        self.each = None;
        self.detach = true;
        self.agent_task.prompt = Some(task.prompt);
        self.task.worktree = Some(task.name);
        self.agent_task.model = task.model.or(self.agent_task.model.take());
    }

    /// The owner process of a run whose prompts are typed on the terminal.
    pub(crate) fn on_terminal(&self) -> BackgroundArgs {
        BackgroundArgs::on_terminal(self.detach_keys.clone())
    }
}

/// `$(which claude)` is empty if the program is not in PATH.
pub(super) fn program() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|path| {
        if path.is_empty() {
            return Err("the path is empty: the agent is not in PATH on the host; omit the flag to use the \
                        image's program, or name the native executable");
        }
        Ok(PathBuf::from(path))
    })
}

/// The time for which an agent may report nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StallTime {
    Off,
    After(Duration),
}

fn stall(text: &str) -> Result<StallTime, String> {
    if text == "off" { Ok(StallTime::Off) } else { time(text).map(StallTime::After) }
}

fn dollars(text: &str) -> Result<f64, String> {
    let dollars = text.parse::<f64>().ok().filter(|dollars| dollars.is_finite() && *dollars > 0.0);
    dollars.ok_or_else(|| "must be an amount of dollars above 0, such as 2.50".to_owned())
}

/// The input format of `agent`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentInput {
    /// The prompt, unless it is an argument
    #[default]
    Text,
    /// Messages in Claude Code's format, one per line, sent into the running turn; the first is the
    /// prompt unless it is an argument
    StreamJson,
}

/// The output format of `agent`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentOutput {
    /// The answer; on a terminal, its progress too
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// The agent's events as they arrive, one per line, in Claude Code's format
    StreamJson,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_times_and_dollars() {
        assert_eq!(stall("off"), Ok(StallTime::Off));
        assert_eq!(stall("15m"), Ok(StallTime::After(Duration::from_mins(15))));
        assert!(stall("0s").is_err() && stall("15x").is_err());
        assert_eq!(dollars("2.50"), Ok(2.5));
        for text in ["0", "-1", "inf", "NaN", "$2", ""] {
            assert!(dollars(text).is_err(), "{text}");
        }
    }
}
