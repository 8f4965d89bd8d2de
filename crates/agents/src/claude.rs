//! Claude Code's command line, its answers to the questions of a first start, and its session
//! files.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::arguments::with_briefing;
use super::request::Request;

/// Claude Code's file of answers to the questions of a first start, and of much else; relative to
/// its state.
pub const CLAUDE_ANSWERS: &str = ".claude.json";
/// The number of last characters of a key that Claude Code remembers.
const KEY_END: usize = 20;

pub(super) fn command_line(request: &Request<'_>) -> Vec<String> {
    let mut command = Vec::new();
    let mut add = |option: &str, value: &str| command.extend([option.to_owned(), value.to_owned()]);
    match (request.session, request.fresh) {
        (Some(session), _) => add("--resume", session),
        (None, Some(session)) => add("--session-id", session),
        (None, None) => {}
    }
    add("--model", request.model.unwrap_or_default());
    command.push("--dangerously-skip-permissions".to_owned());
    if request.typed.is_none() {
        // With plain text Claude Code would wait three seconds for the prompt and then start
        // without it, which is too short on a busy machine.
        command.extend(["-p", "--input-format", "stream-json"].map(str::to_owned));
        command.extend(["--output-format", "stream-json", "--verbose"].map(str::to_owned));
        if request.partial {
            command.push("--include-partial-messages".to_owned());
        }
    }
    if request.messages {
        // Sent messages are among the events, and so in the session.
        command.push("--replay-user-messages".to_owned());
    }
    if let Some(turns) = request.max_turns {
        command.extend(["--max-turns".to_owned(), turns.to_string()]);
    }
    if let Some(dollars) = request.max_budget_usd {
        command.extend(["--max-budget-usd".to_owned(), dollars.to_string()]);
    }
    command.extend(match request.briefing {
        Some(briefing) => with_briefing(request.arguments, briefing),
        None => request.arguments.to_vec(),
    });
    command
}

/// The content of [`CLAUDE_ANSWERS`], which was `before`, with answers to all questions before the
/// first prompt: the theme, whether `working_dir` is trusted, whether `key` is to be used (a
/// surrogate, in a task), and whether Claude Code may act without asking. The sandbox confines the
/// task regardless of the answers.
#[must_use]
pub fn claude_answers(before: Option<&[u8]>, working_dir: &str, key: Option<&str>) -> Vec<u8> {
    let before = before.and_then(|bytes| serde_json::from_slice(bytes).ok());
    let mut answers: Map<String, Value> = before.unwrap_or_default();
    answers.insert("hasCompletedOnboarding".to_owned(), true.into());
    answers.insert("bypassPermissionsModeAccepted".to_owned(), true.into());
    let mut projects = taken(&mut answers, "projects");
    for folder in Path::new(working_dir).ancestors() {
        let name = folder.display().to_string();
        let mut project = taken(&mut projects, &name);
        project.insert("hasTrustDialogAccepted".to_owned(), true.into());
        projects.insert(name, project.into());
    }
    answers.insert("projects".to_owned(), projects.into());
    if let Some(key) = key {
        let start = key.char_indices().rev().nth(KEY_END - 1).map_or(0, |(start, _)| start);
        let end = key.get(start..).unwrap_or_default();
        answers.insert("customApiKeyResponses".to_owned(), json!({ "approved": [end], "rejected": [] }));
    }
    Value::from(answers).to_string().into_bytes()
}

/// The object at `name`; empty if there is none.
fn taken(parent: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match parent.remove(name) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// The path of the session `id` of `working_dir`, relative to Claude Code's state.
#[must_use]
pub fn claude_session_file(working_dir: &str, id: &str) -> PathBuf {
    let project: String =
        working_dir.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Path::new("projects").join(project).join(format!("{id}.jsonl"))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::super::request::Typed;
    use super::*;

    #[test]
    fn command_line_has_the_options_of_the_request() {
        let arguments = ["--tools".to_owned(), "Read".to_owned()];
        let shown = |request: &Request<'_>| command_line(request).join(" ");
        let request = Request { model: Some("m"), arguments: &arguments, ..Request::default() };
        let events = "-p --input-format stream-json --output-format stream-json --verbose";
        assert_eq!(
            shown(&request),
            format!("--model m --dangerously-skip-permissions {events} --tools Read")
        );
        let request = Request {
            session: Some("s"),
            fresh: Some("f"),
            briefing: Some("b"),
            messages: true,
            partial: true,
            max_turns: NonZeroU32::new(3),
            max_budget_usd: Some(2.5),
            ..request
        };
        assert_eq!(
            shown(&request),
            format!(
                "--resume s --model m --dangerously-skip-permissions {events} --include-partial-messages --replay-user-messages \
                 --max-turns 3 --max-budget-usd 2.5 --append-system-prompt b --tools Read"
            )
        );
        let typed = Some(Typed { folder: "/workspace", has_key: true });
        let request = Request { fresh: Some("f"), model: Some("m"), typed, ..Request::default() };
        assert_eq!(shown(&request), "--session-id f --model m --dangerously-skip-permissions");
    }

    #[test]
    fn answers_are_added_and_the_rest_is_kept() {
        let key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789AA";
        let before = br#"{"theme":"light","projects":{"/workspace":{"lastCost":1},"/":7},"customApiKeyResponses":{"rejected":["stuvwxyz0123456789AA"]}}"#;
        let answers: Value =
            serde_json::from_slice(&claude_answers(Some(before), "/workspace/a", Some(key))).unwrap();
        let trusted = json!({"hasTrustDialogAccepted": true});
        assert_eq!(
            answers,
            json!({
                "theme": "light", "hasCompletedOnboarding": true, "bypassPermissionsModeAccepted": true,
                "projects": {"/": trusted, "/workspace": {"lastCost": 1, "hasTrustDialogAccepted": true}, "/workspace/a": trusted},
                "customApiKeyResponses": {"approved": ["stuvwxyz0123456789AA"], "rejected": []},
            })
        );
        for hostile in [&b"[]"[..], b"\xff", b"{\"projects\":[1]}", b""] {
            let answers: Value =
                serde_json::from_slice(&claude_answers(Some(hostile), "/workspace", Some("k"))).unwrap();
            assert_eq!(answers["projects"]["/workspace"], trusted);
            assert_eq!(answers["customApiKeyResponses"]["approved"], json!(["k"]));
        }
        assert!(
            !String::from_utf8(claude_answers(None, "/workspace", None)).unwrap().contains("customApiKey")
        );
    }

    #[test]
    fn session_path_is_that_of_claude_code() {
        assert_eq!(claude_session_file("/workspace/a.b", "x"), Path::new("projects/-workspace-a-b/x.jsonl"));
    }
}
