//! The scenarios, and how a prompt names one.

use std::str::FromStr;

use super::failure::FAILURES;
use super::failure::Failure;

/// How the stand-in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scenario {
    /// `text`: a streamed reply that says how many prompts it was sent and quotes them.
    #[default]
    Text,
    /// `thinking`: a thinking block, then a text.
    Thinking,
    /// `tool-use`: one call of the Bash tool, then a text that quotes what it printed. A line
    /// `command: …` of the prompt is the command; without one it is an `echo`.
    ToolUse,
    /// `tool-loop`: a call of the Bash tool after each result, without end.
    ToolLoop,
    /// `web-search`: one call of the `WebSearch` tool, whose own prompt is `scenario:tools-seen`,
    /// then a text that quotes what it printed.
    WebSearch,
    /// `mcp`: one call of the tool `echo` of the MCP server `mcp`, then a text that quotes what it
    /// printed. A line `message: …` of the prompt is what it is called with.
    Mcp,
    /// `tools-seen`: a text that says which tools of the vendor's the request has.
    ToolsSeen,
    /// `system-seen`: a text that quotes the last part of the request's system prompt.
    SystemSeen,
    /// `subagent`: one call of the Agent tool, whose own prompt is answered like `tool-use`, then a
    /// text.
    Subagent,
    /// `background`: like `subagent`, but Claude Code does not wait for the answer.
    Background,
    /// `quoted-error`: a successful reply, after a tool call, both of which quote what an API error
    /// looks like.
    QuotedError,
    /// `refusal`: the model declines, which the API reports as a stop reason.
    Refusal,
    /// `empty`: a reply without any content.
    Empty,
    /// `slow`: a text block at once, then a long text that trickles, one word each tenth of a
    /// second.
    Slow,
    /// `hang`: the head of the stream, then nothing for an hour.
    Hang,
    /// `drop`: the connection breaks in the middle of a text block, each time.
    Drop,
    /// `drop-at-once`: the connection breaks before the first event, each time.
    DropAtOnce,
    /// `error-mid-stream`: an `overloaded_error` event in the middle of a text block, each time.
    ErrorMidStream,
    /// `overloaded-once`: 529 to the first attempt, the text reply to the retry.
    OverloadedOnce,
    /// `not-json`: a 200 whose body is HTML, as a captive portal sends.
    NotJson,
    /// An error answer to every attempt.
    Fail(&'static Failure),
}

/// The scenarios that are no plain failure, by name.
const NAMED: &[(&str, Scenario)] = &[
    ("text", Scenario::Text),
    ("thinking", Scenario::Thinking),
    ("tool-use", Scenario::ToolUse),
    ("tool-loop", Scenario::ToolLoop),
    ("web-search", Scenario::WebSearch),
    ("mcp", Scenario::Mcp),
    ("tools-seen", Scenario::ToolsSeen),
    ("system-seen", Scenario::SystemSeen),
    ("subagent", Scenario::Subagent),
    ("background", Scenario::Background),
    ("quoted-error", Scenario::QuotedError),
    ("refusal", Scenario::Refusal),
    ("empty", Scenario::Empty),
    ("slow", Scenario::Slow),
    ("hang", Scenario::Hang),
    ("drop", Scenario::Drop),
    ("drop-at-once", Scenario::DropAtOnce),
    ("error-mid-stream", Scenario::ErrorMidStream),
    ("overloaded-once", Scenario::OverloadedOnce),
    ("not-json", Scenario::NotJson),
];

impl Scenario {
    /// Every scenario, the failures last.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMED.iter().map(|(_, scenario)| *scenario).chain(FAILURES.iter().map(Self::Fail))
    }

    /// The word that follows `scenario:` in a prompt.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fail(failure) => failure.name,
            other => NAMED.iter().find(|(_, scenario)| *scenario == other).map_or("text", |(name, _)| name),
        }
    }

    /// The scenario that a prompt asks for, the last one of several; `None` where it asks for none.
    ///
    /// # Errors
    ///
    /// When the prompt names a scenario that there is not.
    pub fn in_prompt(prompt: &str) -> Result<Option<Self>, UnknownScenario> {
        let Some((_, rest)) = prompt.rsplit_once("scenario:") else {
            return Ok(None);
        };
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        let (name, _) = rest.split_at(end);
        name.parse().map(Some)
    }
}

/// A prompt named a scenario that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stand-in has no scenario `{0}`")]
pub struct UnknownScenario(pub String);

impl FromStr for Scenario {
    type Err = UnknownScenario;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::all().find(|scenario| scenario.name() == name).ok_or_else(|| UnknownScenario(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_scenarios_match_both_ways() {
        for scenario in Scenario::all() {
            assert_eq!(scenario.name().parse(), Ok(scenario));
        }
    }

    #[test]
    fn a_prompt_names_its_scenario_with_a_word() {
        let cases = [
            ("hello", Ok(None)),
            ("scenario:slow", Ok(Some(Scenario::Slow))),
            ("scenario:hang\nscenario:text x", Ok(Some(Scenario::Text))),
            ("please (scenario:tool-use), now", Ok(Some(Scenario::ToolUse))),
            ("scenario:nonsense", Err(UnknownScenario("nonsense".to_owned()))),
            ("scenario:", Err(UnknownScenario(String::new()))),
        ];
        for (prompt, expected) in cases {
            assert_eq!(Scenario::in_prompt(prompt), expected, "{prompt}");
        }
    }
}
