//! `agent`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::TaskArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Claude Code gets no credentials by itself: write `masked_secrets: {ANTHROPIC_API_KEY: {preset: anthropic}}` into \
.sandbox/sandbox.yaml, and it works with a surrogate of the key.

Examples:
  sandbox agent --claude-bin \"$(which claude)\" \"fix the failing test\"
  sandbox agent --claude-bin \"$(which claude)\" --resume \"and now the other one\"
  git diff | sandbox agent -
  sandbox agent \"review the last commit\" -- --tools Read,Grep --mcp-config /workspace/.mcp.json")]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// Resume a session (default: the most recent)
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    /// Model: an alias such as opus, or a full name [default: the session's last one, sonnet]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Session folder [default: a folder for this project in the state directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) session_dir: Option<PathBuf>,
    /// Claude Code's program on this machine, to mount read-only [default: the image's `claude`]
    #[arg(long, value_name = "PATH")]
    pub(crate) claude_bin: Option<PathBuf>,
    /// Output format on stdout
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: AgentOutput,
    /// Do not describe the sandbox's limits in Claude Code's system prompt
    #[arg(long)]
    pub(crate) no_briefing: bool,
    /// Prompt; `-`, or none where stdin is a file or pipe: read it from stdin
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Arguments for Claude Code, with paths of the container
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<String>,
}

/// What `agent` prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentOutput {
    /// The answer; on a terminal, its progress too
    #[default]
    Text,
    /// One object at the end
    Json,
    /// Claude Code's events as they come, one a line
    StreamJson,
}
