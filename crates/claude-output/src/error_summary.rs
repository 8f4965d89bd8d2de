//! A summary of a failed run for the user.

use crate::event::StreamEvent;

/// Maximum number of lines of standard error to show.
const LINES: usize = 10;

/// The text of the last error result, else the last ten non-blank lines of standard error.
///
/// `None` if both are empty. Output of a model or a tool is never part of it.
#[must_use]
pub fn extract_error_summary(events: &[StreamEvent], stderr: &str) -> Option<String> {
    events.iter().rev().find_map(|event| event.as_result()?.error_text()).or_else(|| last_lines(stderr))
}

fn last_lines(stderr: &str) -> Option<String> {
    let mut lines: Vec<_> =
        stderr.lines().rev().map(str::trim_end).filter(|line| !line.is_empty()).take(LINES).collect();
    lines.reverse();
    Some(lines.join("\n")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    #[test]
    fn result_takes_precedence_over_standard_error() {
        let error = |text: &str| json!({"type": "result", "is_error": true, "result": text});
        let fine = json!({"type": "result", "is_error": false, "result": "fine"});
        let reply = json!({"type": "assistant", "message": {"content": "API Error: 401"}});
        let cases = [
            (vec![], "", None),
            (vec![], " \n\n", None),
            (vec![reply.clone(), fine.clone()], "", None),
            (vec![reply, fine.clone()], "oh\r\n", Some("oh")),
            (vec![error("a"), error("b"), fine], "oh", Some("b")),
            (vec![error("a"), error("")], "oh", Some("a")),
            (
                vec![error("")],
                "1\n2\n3\n4\n5\n6\n\n7\n8\n9\n10\n11\n",
                Some("2\n3\n4\n5\n6\n7\n8\n9\n10\n11"),
            ),
        ];
        for (events, stderr, expected) in cases {
            let typed: Vec<StreamEvent> = serde_json::from_value(Value::Array(events.clone())).unwrap();
            assert_eq!(extract_error_summary(&typed, stderr).as_deref(), expected, "{events:?}");
        }
    }
}
