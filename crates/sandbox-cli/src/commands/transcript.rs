//! Claude Code's events as lines for people.

use std::time::Duration;

use claude_output::{
    ApiRetry, ContentBlock, EventKind, MessageEvent, ResultEvent, StreamEvent, SystemEvent, ToolUse,
};
use serde_json::Value;

use crate::printer::{Printer, Style, sanitize};

/// Characters of a tool's arguments that are shown.
const SHOWN: usize = 100;

/// Arguments of tools that say most, the best first.
const SHOWN_ARGUMENTS: [&str; 8] =
    ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"];

/// What to print of an event; `None` for those that say nothing to people.
pub(crate) fn lines(event: &StreamEvent, printer: Printer) -> Option<String> {
    let inner = event.parent_tool_use_id().is_some();
    let lines = match event.kind() {
        EventKind::Assistant(message) => assistant(message, inner, printer),
        EventKind::User(message) => failed_tools(message, printer),
        EventKind::Result(result) => vec![ending(result, printer)],
        EventKind::System(SystemEvent { retry: Some(retry), .. }) => vec![again(retry, printer)],
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

fn assistant(message: &MessageEvent, inner: bool, printer: Printer) -> Vec<String> {
    let indent = if inner { "  " } else { "" };
    let line = |block: &ContentBlock| match block {
        // What a subagent says is for the agent that asked it.
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

fn again(retry: &ApiRetry, printer: Printer) -> String {
    let status = retry.status.map(|status| status.to_string());
    let facts: Vec<String> = status.into_iter().chain(retry.error.as_deref().map(sanitize)).collect();
    let facts = if facts.is_empty() { "no answer".to_owned() } else { facts.join(" ") };
    let delay = retry.delay_ms.map(|delay| Duration::from_millis(delay).as_secs_f64().ceil());
    let delay = delay.map(|seconds| format!("; next attempt in {seconds} s")).unwrap_or_default();
    let count = match (retry.attempt, retry.max_retries) {
        (Some(attempt), Some(most)) => format!(" ({attempt} of {most})"),
        _ => String::new(),
    };
    let text = format!("the API failed: {facts}{delay}{count}");
    format!("{}\n", printer.styled(Style::Warning, text))
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

    #[test]
    fn what_people_see_of_events() {
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
    fn long_arguments_are_cut_between_characters() {
        let long = "é".repeat(SHOWN + 1);
        assert_eq!(one_line(&long), format!("{}…", "é".repeat(SHOWN)));
    }
}
