//! The parameters of an agent's command line.

use std::num::NonZeroU32;

/// The parameters of an agent's command line. An agent ignores those that it has no option for.
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// The session to resume; `None` starts one.
    pub session: Option<&'a str>,
    /// The model; `None` for the agent's default. Claude Code requires one.
    pub model: Option<&'a str>,
    /// The description of the sandbox's limits.
    pub briefing: Option<&'a str>,
    /// The caller's arguments.
    pub arguments: &'a [String],
    /// Set for an interactive session on a terminal.
    pub typed: Option<Typed<'a>>,
    /// The id of the session that starts (Claude Code).
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

/// The parameters of an interactive session.
#[derive(Debug)]
pub struct Typed<'a> {
    /// The working directory in the container.
    pub folder: &'a str,
    /// Whether a variable contains the agent's key.
    pub has_key: bool,
}
