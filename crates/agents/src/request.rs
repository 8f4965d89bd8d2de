//! A request to an agent, of which its command line is made.

use std::num::NonZeroU32;

/// What an execution asks of an agent.
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// The session to resume; `None` begins one.
    pub session: Option<&'a str>,
    /// The model; `None`: what the agent chooses.
    pub model: Option<&'a str>,
    /// What it is told of its limits, where it has an option for that.
    pub briefing: Option<&'a str>,
    /// The caller's arguments.
    pub arguments: &'a [String],
    /// For prompts that are typed on a terminal.
    pub typed: Option<Typed<'a>>,
    /// The id of a session that starts; Claude Code accepts one.
    pub fresh: Option<&'a str>,
    /// Whether messages may follow the prompt (Claude Code).
    pub messages: bool,
    /// Whether text is also reported while it is written (Claude Code).
    pub partial: bool,
    /// The maximum number of turns (Claude Code).
    pub max_turns: Option<NonZeroU32>,
    /// The maximum cost in US dollars (Claude Code).
    pub max_budget_usd: Option<f64>,
}

/// What an agent on a terminal needs to know.
#[derive(Debug)]
pub struct Typed<'a> {
    /// Where it begins.
    pub folder: &'a str,
    /// Whether a variable has its key.
    pub has_key: bool,
}
