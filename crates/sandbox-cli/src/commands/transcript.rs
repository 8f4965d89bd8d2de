//! Claude Code's events as lines of text.

use std::time::Duration;

use claude_output::{
    ApiRetry, ContentBlock, EventKind, MessageEvent, Partial, ResultEvent, StreamEvent, SystemEvent, ToolUse,
};
use serde_json::Value;

use crate::control::Activity;
use crate::printer::{Printer, Style, sanitize};

/// The number of characters of a tool's arguments that are shown.
const SHOWN: usize = 100;

/// The most informative arguments of tools, best first.
const SHOWN_ARGUMENTS: [&str; 8] =
    ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"];

/// The model's text, shown as it arrives.
#[derive(Debug, Default)]
pub(crate) struct Streamed {
    /// The text of the current block.
    text: String,
    /// The length of the shown part: white space that may be at its end is not shown yet.
    shown: usize,
    /// Whether the last shown line is incomplete.
    is_open: bool,
}

/// The number of bytes of a block that are shown as they arrive. The rest follows with the complete
/// block.
const STREAMED: usize = 1024 * 1024;

impl Streamed {
    /// The text to print for an event, given the earlier events.
    pub(crate) fn lines(&mut self, event: &StreamEvent, printer: Printer) -> Option<String> {
        if event.parent_tool_use_id().is_none() {
            match event.kind() {
                EventKind::Partial(Partial::Text(text)) => return self.more(text),
                EventKind::Partial(Partial::Begin) => return self.end(),
                EventKind::Assistant(message) if self.shown > 0 => {
                    return self.whole(event, message, printer);
                }
                _ => {}
            }
        }
        let lines = lines(event, printer)?;
        let before = if std::mem::take(&mut self.is_open) { "\n" } else { "" };
        Some(format!("{before}{lines}"))
    }

    /// Ends a text whose complete block never arrived.
    pub(crate) fn end(&mut self) -> Option<String> {
        std::mem::take(self).is_open.then(|| "\n".to_owned())
    }

    fn more(&mut self, piece: &str) -> Option<String> {
        if self.text.len() + piece.len() > STREAMED {
            return None;
        }
        let visible = self.text.len() + piece.trim_end().len();
        self.text.push_str(piece);
        if piece.trim_end().is_empty() {
            return None;
        }
        let more = self.text.get(self.shown..visible)?;
        self.shown = visible;
        // Each character is sanitized alone, so pieces can end anywhere.
        let more = sanitize(more);
        self.is_open = !more.ends_with('\n');
        Some(more)
    }

    /// The rest of a message whose text was partly shown.
    fn whole(&mut self, event: &StreamEvent, message: &MessageEvent, printer: Printer) -> Option<String> {
        let Self { text, shown, is_open } = std::mem::take(self);
        let begun = text.get(..shown).unwrap_or_default();
        let first = message.content.iter().position(|block| matches!(block, ContentBlock::Text(_)));
        let end = if is_open { "\n" } else { "" };
        match (first, first.and_then(|first| message.content.get(first))) {
            (Some(first), Some(ContentBlock::Text(all))) if all.starts_with(begun) => {
                let rest = all.trim_end().get(shown..).unwrap_or_default();
                let mut others = message.clone();
                others.content.remove(first);
                let others = assistant(&others, false, printer).concat();
                Some(format!("{}\n{others}", sanitize(rest)))
            }
            // It is a different text, so all of it is shown.
            (Some(_), _) => Some(format!("{end}{}", lines(event, printer).unwrap_or_default())),
            (None, _) => {
                // Its text is still to come.
                let lines = lines(event, printer);
                *self = Self { text, shown, is_open: is_open && lines.is_none() };
                lines.map(|lines| format!("{end}{lines}"))
            }
        }
    }
}

/// The text to print for an event; `None` for events without interest to people.
pub(crate) fn lines(event: &StreamEvent, printer: Printer) -> Option<String> {
    let inner = event.parent_tool_use_id().is_some();
    let lines = match event.kind() {
        EventKind::Assistant(message) => assistant(message, inner, printer),
        EventKind::User(message) => failed_tools(message, printer),
        EventKind::Result(result) => vec![ending(result, printer)],
        EventKind::System(SystemEvent { retry: Some(retry), .. }) => {
            vec![format!("{}\n", printer.styled(Style::Warning, again(retry)))]
        }
        EventKind::Truncated(truncated) => {
            vec![printer.styled(
                Style::Warning,
                format_args!("[a line longer than {} bytes was cut]", truncated.limit),
            )]
        }
        _ => Vec::new(),
    };
    (!lines.is_empty()).then(|| lines.concat())
}

/// Adds an event to the activity that clients see.
pub(crate) fn note(event: &StreamEvent, activity: &Activity) {
    match event.kind() {
        EventKind::Assistant(message) => {
            for block in &message.content {
                if let ContentBlock::ToolUse(tool) = block {
                    activity.called(&tool.name, arguments(tool));
                }
            }
        }
        EventKind::Result(result) => activity.cost(result.total_cost_usd),
        _ => {}
    }
}

fn assistant(message: &MessageEvent, inner: bool, printer: Printer) -> Vec<String> {
    let indent = if inner { "  " } else { "" };
    let line = |block: &ContentBlock| match block {
        // A subagent's text is for the agent that started it.
        ContentBlock::Text(text) if !inner && !text.trim().is_empty() => {
            Some(format!("{}\n", sanitize(text.trim_end())))
        }
        ContentBlock::ToolUse(tool) => {
            let name = printer.styled(Style::Strong, sanitize(&tool.name));
            Some(format!("{indent}> {name} {}\n", printer.styled(Style::Faint, arguments(tool))))
        }
        _ => None,
    };
    message.content.iter().filter_map(line).collect()
}

fn failed_tools(message: &MessageEvent, printer: Printer) -> Vec<String> {
    let line = |block: &ContentBlock| match block {
        ContentBlock::ToolResult(result) if result.is_error => {
            let text = result.text();
            let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed");
            Some(format!("  {}\n", printer.styled(Style::Bad, one_line(first))))
        }
        _ => None,
    };
    message.content.iter().filter_map(line).collect()
}

/// Why and when a request to the API is retried.
pub(crate) fn again(retry: &ApiRetry) -> String {
    let status = retry.status.map(|status| status.to_string());
    let facts: Vec<String> = status.into_iter().chain(retry.error.as_deref().map(sanitize)).collect();
    let facts = if facts.is_empty() { "no answer".to_owned() } else { facts.join(" ") };
    let delay = retry.delay_ms.map(|delay| Duration::from_millis(delay).as_secs_f64().ceil());
    let delay = delay.map(|seconds| format!("; next attempt in {seconds} s")).unwrap_or_default();
    let count = match (retry.attempt, retry.max_retries) {
        (Some(attempt), Some(most)) => format!(" ({attempt} of {most})"),
        _ => String::new(),
    };
    format!("the API failed: {facts}{delay}{count}")
}

fn ending(result: &ResultEvent, printer: Printer) -> String {
    let word = if result.has_failed() {
        printer.styled(Style::Bad, "failed")
    } else {
        printer.styled(Style::Good, "done")
    };
    let mut facts = vec![word];
    if let Some(turns) = result.num_turns {
        facts.push(format!("{turns} turn{}", if turns == 1 { "" } else { "s" }));
    }
    if let Some(duration) = result.duration_ms {
        facts.push(format!("{:.1} s", Duration::from_millis(duration).as_secs_f64()));
    }
    if let Some(cost) = result.total_cost_usd {
        facts.push(format!("${cost:.4}"));
    }
    format!("{}\n", facts.join(", "))
}

fn arguments(tool: &ToolUse) -> String {
    let shown = SHOWN_ARGUMENTS.iter().find_map(|name| tool.input.get(name).and_then(Value::as_str));
    match shown {
        Some(text) => one_line(text),
        None if tool.input.as_object().is_some_and(|input| !input.is_empty()) => {
            one_line(&tool.input.to_string())
        }
        None => String::new(),
    }
}

fn one_line(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(SHOWN) {
        words.truncate(end);
        words.push('…');
    }
    sanitize(&words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(event: &Value) -> Option<String> {
        let event = claude_output::parse_event(&event.to_string()).unwrap();
        lines(&event, Printer::new(0, true))
    }

    fn streamed(events: &[Value]) -> String {
        let mut streamed = Streamed::default();
        let printer = Printer::new(0, true);
        let events = events.iter().map(|event| claude_output::parse_event(&event.to_string()).unwrap());
        let lines: Vec<_> = events.filter_map(|event| streamed.lines(&event, printer)).collect();
        lines.concat() + &streamed.end().unwrap_or_default()
    }

    #[test]
    fn streamed_text_is_shown_once() {
        let piece = |text: &str| json!({"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}});
        let begin = || json!({"type": "stream_event", "event": {"type": "message_start"}});
        let whole = |text: &str| json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}});
        let tool = || json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "1", "name": "Bash", "input": {}}]}});
        let inner = |mut event: Value| {
            event["parent_tool_use_id"] = json!("t");
            event
        };
        for (events, expected) in [
            (
                vec![begin(), piece("Hel"), piece("lo \n"), piece("you.\n\n"), whole("Hello \nyou.\n\n")],
                "Hello \nyou.\n",
            ),
            (vec![piece("a"), whole("a"), piece("b"), whole("b")], "a\nb\n"),
            // Text without its complete block, or with a different one.
            (vec![piece("cut"), begin(), piece("again"), whole("again")], "cut\nagain\n"),
            (vec![piece("cut")], "cut\n"),
            (vec![piece("abc"), whole("xyz")], "abc\nxyz\n"),
            (vec![piece("abc"), whole("abcdef")], "abcdef\n"),
            (vec![piece(" \n"), whole(" \n"), tool()], "> Bash \n"),
            (vec![piece("a"), tool(), piece("b"), whole("ab")], "a\n> Bash \nb\n"),
            (vec![piece("a"), inner(piece("x")), inner(whole("x")), piece("b"), whole("ab")], "ab\n"),
            // A split escape sequence and a split grapheme cluster.
            (vec![piece("a\x1b"), piece("[2Jb\u{9b}"), piece("1m\r")], "a\\u{1b}[2Jb\\u{9b}1m\n"),
            (
                vec![piece("\u{1f469}\u{200d}"), piece("\u{1f4bb}e"), piece("\u{301}\u{202e}.")],
                "\u{1f469}\u{200d}\u{1f4bb}e\u{301}\\u{202e}.\n",
            ),
        ] {
            assert_eq!(streamed(&events), expected, "{events:?}");
        }
        let much = "x".repeat(STREAMED);
        assert_eq!(streamed(&[piece("a"), piece(&much), whole(&format!("a{much}"))]).len(), STREAMED + 2);
    }

    #[test]
    fn events_as_text() {
        let text = |text: &str| json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}});
        let tool = |input: &Value| json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "1", "name": "Bash", "input": input}]}});
        let mut inner = tool(&json!({"command": "ls"}));
        inner["parent_tool_use_id"] = json!("t");
        let mut said_inside = text("for the agent");
        said_inside["parent_tool_use_id"] = json!("t");
        for (event, expected) in [
            (json!({"type": "system", "subtype": "init", "session_id": "s"}), None),
            (
                json!({"type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 10, "retry_delay_ms": 1041, "error_status": 429, "error": "rate_limit"}),
                Some("the API failed: 429 rate_limit; next attempt in 2 s (2 of 10)\n"),
            ),
            (text("Hello.\n"), Some("Hello.\n")),
            (text(" \n"), None),
            (text("a\x1b[2Jb"), Some("a\\u{1b}[2Jb\n")),
            (tool(&json!({"command": "ls -la\n| wc", "description": "count"})), Some("> Bash ls -la | wc\n")),
            (tool(&json!({"x": 1})), Some("> Bash {\"x\":1}\n")),
            (tool(&json!({})), Some("> Bash \n")),
            (inner, Some("  > Bash ls\n")),
            (said_inside, None),
            (
                json!({"type": "user", "message": {"content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "\nno such file\nmore", "is_error": true}]}}),
                Some("  no such file\n"),
            ),
            (
                json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "1", "content": "fine"}]}}),
                None,
            ),
            (
                json!({"type": "result", "num_turns": 1, "duration_ms": 1234, "total_cost_usd": 0.01234}),
                Some("done, 1 turn, 1.2 s, $0.0123\n"),
            ),
            (json!({"type": "result", "is_error": true, "num_turns": 2}), Some("failed, 2 turns\n")),
        ] {
            assert_eq!(shown(&event).as_deref(), expected, "{event}");
        }
    }

    #[test]
    fn long_arguments_are_cut_at_character_boundaries() {
        let long = "é".repeat(SHOWN + 1);
        assert_eq!(one_line(&long), format!("{}…", "é".repeat(SHOWN)));
    }
}
