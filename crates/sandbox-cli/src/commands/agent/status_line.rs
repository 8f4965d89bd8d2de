//! The status line of a working agent.

use std::time::{Duration, Instant};

use claude_output::{ContentBlock, EventKind, Partial, StreamEvent, SystemEvent};

use crate::args::AgentOutput;
use crate::commands::transcript;
use crate::owner::Owner;
use crate::printer::Printer;

/// The interval of its clock.
pub(super) const TICK: Duration = Duration::from_secs(1);

const WAITING: &str = "waiting for the API";

/// A line on stderr that is updated in place: the time, and the agent's activity. Dropping it
/// removes it.
#[derive(Debug)]
pub(super) struct StatusLine {
    /// `None` without a terminal.
    printer: Option<Printer>,
    since: Instant,
    doing: String,
}

impl StatusLine {
    pub(super) fn new(output: AgentOutput, printer: Printer) -> Self {
        // An owner's stderr is no longer a terminal; with -v, other messages show the progress.
        let is_shown = output == AgentOutput::Text
            && printer.shows_status()
            && printer.verbosity() == 0
            && Owner::of_this_process().is_none();
        let doing = WAITING.to_owned();
        Self { printer: is_shown.then_some(printer), since: Instant::now(), doing }
    }

    pub(super) fn is_shown(&self) -> bool {
        self.printer.is_some()
    }

    pub(super) fn saw(&mut self, event: &StreamEvent) {
        if let Some(doing) = doing(event) {
            self.doing = doing;
        }
    }

    pub(super) fn show(&self) {
        if let Some(printer) = self.printer {
            printer.status(&text(self.since.elapsed(), &self.doing));
        }
    }

    /// Removes it before other output to the terminal.
    pub(super) fn remove(&self) {
        if let Some(printer) = self.printer {
            printer.remove_status();
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.remove();
    }
}

fn text(elapsed: Duration, doing: &str) -> String {
    let seconds = elapsed.as_secs();
    format!("{}:{:02} {doing}", seconds / 60, seconds % 60)
}

/// The agent's activity after `event`; `None` if it is unchanged or unknown.
fn doing(event: &StreamEvent) -> Option<String> {
    match event.kind() {
        EventKind::System(SystemEvent { retry: Some(retry), .. }) => Some(transcript::again(retry)),
        EventKind::Assistant(message) => message.content.iter().rev().find_map(|block| match block {
            ContentBlock::ToolUse(tool) => Some(tool.name.clone()),
            _ => None,
        }),
        EventKind::Partial(Partial::Text(_)) => Some("answering".to_owned()),
        EventKind::User(_) => Some(WAITING.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use claude_output::parse_event;

    use super::*;

    #[test]
    fn status_line_has_time_and_activity() {
        let doing = |json: &str| doing(&parse_event(json).unwrap());
        assert_eq!(
            doing(r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]}}"#)
                .as_deref(),
            Some("Bash")
        );
        assert_eq!(doing(r#"{"type":"user","message":{"content":"x"}}"#).as_deref(), Some(WAITING));
        assert_eq!(doing(r#"{"type":"assistant","message":{"content":"x"}}"#), None);
        let retry = r#"{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"error_status":529,"error":"overloaded"}"#;
        assert_eq!(doing(retry).as_deref(), Some("the API failed: 529 overloaded (2 of 10)"));
        assert_eq!(text(Duration::from_secs(61), "Bash"), "1:01 Bash");
    }
}
