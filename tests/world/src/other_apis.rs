//! Stand-ins for the APIs of agents other than Claude Code: `OpenAI`'s Responses and Gemini's
//! `generateContent`, good enough for the real Codex and Gemini CLI.
//!
//! As with [`messages_api`](crate::messages_api), the newest prompt says what comes:
//! `scenario:hang` stops in the middle of a stream, `scenario:unauthorized` is refused, a line
//! `command: …` is a call of the shell, whose output is then quoted. Everything else is answered
//! with a text that quotes all prompts, so that a test sees whether a resumed session carried its
//! history along.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::messages_api::{ApiRequest, ApiResponse, Step};

/// Longer than any test waits.
const FOREVER: Duration = Duration::from_hours(1);

/// What a conversation is about.
struct Turn {
    prompts: Vec<String>,
    /// What the last tool printed, if that is the last word.
    output: Option<String>,
}

/// What comes back.
enum Reply {
    Text(String),
    Shell(String),
    Hang,
    Refused,
}

impl Turn {
    fn reply(&self) -> Reply {
        if let Some(output) = &self.output {
            return Reply::Text(format!("The tool printed: {output}"));
        }
        let newest = self.prompts.last().map_or("", String::as_str);
        if newest.contains("scenario:hang") {
            return Reply::Hang;
        }
        if newest.contains("scenario:unauthorized") {
            return Reply::Refused;
        }
        let command = newest.lines().find_map(|line| line.strip_prefix("command: "));
        command.map_or_else(
            || Reply::Text(format!("You asked: {}", self.prompts.join(" | "))),
            |command| Reply::Shell(command.to_owned()),
        )
    }
}

/// Answers a request to the host of one of these APIs.
#[must_use]
pub fn answer(request: &ApiRequest) -> ApiResponse {
    let route = request.route();
    if request.header("upgrade").is_some() {
        // Codex then speaks HTTP.
        return ApiResponse::empty(426);
    }
    if request.method == "POST" && route.ends_with("/responses") {
        return responses(&request.body);
    }
    if request.method == "POST" && route.contains(":streamGenerateContent") {
        return generate_content(&request.body);
    }
    if request.method == "POST" && route.contains(":generateContent") {
        // What Gemini CLI asks a small model on the side.
        return ApiResponse::json(200, &gemini_chunk(&json!({"text": "{}"}), true));
    }
    ApiResponse::empty(404)
}

fn refused() -> ApiResponse {
    let error = json!({"message": "the key is not valid", "code": 401, "status": "UNAUTHENTICATED"});
    ApiResponse::json(401, &json!({"error": error}))
}

/// The texts at `place` of the items in `list`.
fn texts<'a>(list: &'a Value, place: &'a str) -> impl Iterator<Item = &'a str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(move |item| item.pointer(place).and_then(Value::as_str))
}

fn responses(body: &Value) -> ApiResponse {
    let items = body["input"].as_array().map_or(&[][..], Vec::as_slice);
    let is_output = |item: &&Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
    let output = items.last().filter(is_output).map(|item| match &item["output"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let users = items.iter().filter(|item| item["role"] == "user");
    let prompts = users.flat_map(|item| texts(&item["content"], "/text")).map(str::to_owned).collect();
    let mut events = vec![json!({"type": "response.created", "response": {"id": "resp_1"}})];
    let item = match (Turn { prompts, output }).reply() {
        Reply::Refused => return refused(),
        Reply::Hang => {
            let mut steps: Vec<Step> = events.iter().map(named).collect();
            steps.push(Step::Pause(FOREVER));
            return ApiResponse::event_stream(steps);
        }
        Reply::Text(text) => json!({"type": "message", "role": "assistant", "id": "msg_1",
            "content": [{"type": "output_text", "text": text}]}),
        Reply::Shell(command) if texts(&body["tools"], "/name").any(|name| name == "exec_command") => {
            let arguments = json!({"cmd": command, "yield_time_ms": 30000}).to_string();
            json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "exec_command", "arguments": arguments})
        }
        // Newer models write a script that calls the tools, which a program of its own runs.
        Reply::Shell(command) => {
            let arguments = json!({"cmd": command, "yield_time_ms": 30000});
            let script =
                format!("const done = await tools.exec_command({arguments}); text(JSON.stringify(done));");
            json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "exec", "input": script})
        }
    };
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15});
    events.push(json!({"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}));
    ApiResponse::event_stream(events.iter().map(named).collect())
}

fn generate_content(body: &Value) -> ApiResponse {
    let contents = body["contents"].as_array().map_or(&[][..], Vec::as_slice);
    let printed = |content: &Value| {
        content["parts"].as_array()?.iter().find_map(|part| {
            let response = part.pointer("/functionResponse/response")?;
            response
                .is_object()
                .then(|| response["output"].as_str().map_or_else(|| response.to_string(), str::to_owned))
        })
    };
    let output = contents.last().and_then(printed);
    let users = contents.iter().filter(|content| content["role"] == "user");
    let prompts = users.flat_map(|content| texts(&content["parts"], "/text")).map(str::to_owned).collect();
    let steps = match (Turn { prompts, output }).reply() {
        Reply::Refused => return refused(),
        Reply::Hang => vec![unnamed(&gemini_chunk(&json!({"text": "This "}), false)), Step::Pause(FOREVER)],
        Reply::Text(text) => vec![unnamed(&gemini_chunk(&json!({"text": text}), true))],
        Reply::Shell(command) => {
            let call =
                json!({"name": "run_shell_command", "args": {"command": command, "description": "as asked"}});
            vec![unnamed(&gemini_chunk(&json!({"functionCall": call}), true))]
        }
    };
    ApiResponse::event_stream(steps)
}

fn gemini_chunk(part: &Value, is_last: bool) -> Value {
    let finish = is_last.then_some("STOP");
    let candidate =
        json!({"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": finish});
    let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15});
    json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stand-in", "responseId": "r"})
}

fn named(event: &Value) -> Step {
    let name = event["type"].as_str().unwrap_or_default();
    Step::Bytes(Bytes::from(format!("event: {name}\ndata: {event}\n\n")))
}

fn unnamed(event: &Value) -> Step {
    Step::Bytes(Bytes::from(format!("data: {event}\r\n\r\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, body: Value) -> String {
        let request =
            ApiRequest { method: "POST".to_owned(), path: path.to_owned(), body, ..ApiRequest::default() };
        let steps = answer(&request).body.into_iter();
        let texts = steps.map(|step| match step {
            Step::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => "<waits>".to_owned(),
        });
        texts.collect()
    }

    #[test]
    fn prompts_are_quoted_and_commands_called() {
        let user = |text: &str| json!({"role": "user", "type": "message", "content": [{"type": "input_text", "text": text}]});
        let codex = |input: Value| {
            said("/v1/responses", json!({"input": input, "tools": [{"name": "exec_command"}]}))
        };
        assert!(codex(json!([user("a"), user("b")])).contains("You asked: a | b"));
        assert!(codex(json!([user("command: ls")])).contains("\"name\":\"exec_command\""));
        assert!(
            codex(json!([user("x"), {"type": "function_call_output", "output": "o"}]))
                .contains("The tool printed: o")
        );
        assert!(codex(json!([user("scenario:hang")])).ends_with("<waits>"));
        let gemini = |contents: Value| {
            said("/v1beta/models/m:streamGenerateContent?alt=sse", json!({"contents": contents}))
        };
        assert!(
            gemini(json!([{"role": "user", "parts": [{"text": "briefing\n\ncommand: ls"}]}]))
                .contains("run_shell_command")
        );
        let response = json!({"functionResponse": {"response": {"output": "o"}}});
        assert!(gemini(json!([{"role": "user", "parts": [response]}])).contains("The tool printed: o"));
    }
}
