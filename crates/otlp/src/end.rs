//! The end of a run.

/// Nanoseconds in a millisecond.
pub(crate) const NANOSECONDS: u64 = 1_000_000;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// When it began, in milliseconds since the Unix epoch.
    pub began_ms: u64,
    /// When it ended.
    pub ended_ms: u64,
    /// The exit code.
    pub exit_code: u8,
    /// The result of an agent; `None` for a command.
    pub agent: Option<AgentEnd>,
}

/// The result of an agent's run.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentEnd {
    /// The agent's name.
    pub name: String,
    /// Its outcome, if it has one.
    pub outcome: Option<String>,
    /// US dollars.
    pub cost: Option<f64>,
    /// Turns of the conversation.
    pub turns: Option<u64>,
}

impl RunEnd {
    pub(crate) fn began(&self) -> u64 {
        self.began_ms.saturating_mul(NANOSECONDS)
    }

    pub(crate) fn ended(&self) -> u64 {
        self.ended_ms.max(self.began_ms).saturating_mul(NANOSECONDS)
    }
}
