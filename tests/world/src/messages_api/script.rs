//! The stand-in itself: a request in, a response out.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use serde_json::json;

use super::conversation::Conversation;
use super::exchange::ApiRequest;
use super::exchange::ApiResponse;
use super::exchange::Step;
use super::failure::error;
use super::message::Block;
use super::message::Message;
use super::message::event;
use super::scenario::Scenario;

/// How long the `slow` scenario waits before each word.
pub(super) const TRICKLE: Duration = Duration::from_millis(100);

/// How many words the `slow` scenario sends, a minute's worth.
const SLOW_WORDS: usize = 600;

/// Longer than any test waits.
const FOREVER: Duration = Duration::from_hours(1);

/// The stand-in: answers each request as the scenario that its prompt names says.
///
/// The same request always gets the same answer, but for the scenario that fails once: Claude Code
/// sends a retry that differs in nothing from the first attempt, so only a memory can distinguish
/// them.
#[derive(Debug, Default)]
pub struct Script {
    default: Scenario,
    /// The conversations that were refused once. The lock holds for one look-up; no invariant spans
    /// two.
    refused: Mutex<HashSet<String>>,
}

impl Script {
    /// A script that answers prompts which name no scenario with `default`.
    #[must_use]
    pub fn with_default(default: Scenario) -> Self {
        Self { default, refused: Mutex::default() }
    }

    /// The answer to one request. Paths that Claude Code does not need get the API's own 404.
    #[must_use]
    pub fn answer(&self, request: &ApiRequest) -> ApiResponse {
        match (request.method.as_str(), request.route()) {
            ("HEAD" | "GET", "/") => ApiResponse::empty(200),
            ("POST", "/v1/messages") => self.messages(request),
            ("POST", "/v1/messages/count_tokens") => ApiResponse::json(200, &json!({"input_tokens": 1200})),
            (_, route) => error(404, "not_found_error", &format!("not found: {route}")),
        }
    }

    fn messages(&self, request: &ApiRequest) -> ApiResponse {
        let conversation = Conversation::read(&request.body);
        let scenario = match Scenario::in_prompt(conversation.newest_prompt()) {
            Ok(scenario) => scenario.unwrap_or(self.default),
            Err(unknown) => return error(404, "not_found_error", &unknown.to_string()),
        };
        let turn = Turn { request, conversation: &conversation };
        if scenario == Scenario::OverloadedOnce && self.is_first_attempt(turn.seed()) {
            return error(529, "overloaded_error", "Overloaded");
        }
        turn.play(scenario)
    }

    fn is_first_attempt(&self, seed: String) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(seed)
    }
}

/// One request for a reply.
struct Turn<'a> {
    request: &'a ApiRequest,
    conversation: &'a Conversation,
}

impl Turn<'_> {
    fn play(&self, scenario: Scenario) -> ApiResponse {
        let reply = match scenario {
            Scenario::Text | Scenario::OverloadedOnce => self.message(vec![self.recollection()]),
            Scenario::Thinking => self.message(vec![
                Block::Thinking("The user wants to see a thinking block.".to_owned()),
                self.recollection(),
            ]),
            Scenario::ToolUse => {
                self.tool_then_text(&self.command(), |output| format!("The tool printed: {output}"))
            }
            Scenario::ToolLoop => self.bash(&format!("echo round {}", self.conversation.tool_rounds + 1)),
            Scenario::WebSearch => self.call_then_text("WebSearch", json!({"query": "scenario:tools-seen"})),
            Scenario::Mcp => {
                let message = self.line("message:").unwrap_or("a message");
                self.call_then_text("mcp__mcp__echo", json!({"message": message}))
            }
            Scenario::ToolsSeen => self.message(vec![Block::Text(self.tools_seen())]),
            Scenario::SystemSeen => self.message(vec![Block::Text(self.system_seen())]),
            Scenario::Subagent => self.subagent(Wait::ForAnswer),
            Scenario::Background => self.subagent(Wait::No),
            Scenario::QuotedError => self.tool_then_text(&format!("echo '{QUOTED}'"), |_| {
                format!("{QUOTED}\nThat is what the log says.")
            }),
            Scenario::Refusal => Message { stop_reason: "refusal", ..self.message(Vec::new()) },
            Scenario::Empty => self.message(Vec::new()),
            Scenario::Slow => self.message(vec![
                Block::Text("This will take a while.".to_owned()),
                Block::Trickle { text: many_words(), pause: TRICKLE },
            ]),
            Scenario::Hang => {
                return ApiResponse::event_stream(vec![
                    self.message(Vec::new()).start(),
                    Step::Pause(FOREVER),
                ]);
            }
            Scenario::Drop => return self.broken(Step::Abort),
            Scenario::DropAtOnce => return ApiResponse::event_stream(vec![Step::Abort]),
            Scenario::ErrorMidStream if self.wants_stream() => return self.broken(event(&overloaded())),
            Scenario::ErrorMidStream => return error(529, "overloaded_error", "Overloaded"),
            Scenario::NotJson => return captive_portal(),
            Scenario::Fail(failure) => return failure.response(),
        };
        self.send(&reply)
    }

    fn send(&self, message: &Message) -> ApiResponse {
        if self.wants_stream() {
            ApiResponse::event_stream(message.stream())
        } else {
            ApiResponse::json(200, &message.document())
        }
    }

    fn message(&self, blocks: Vec<Block>) -> Message {
        let stop_reason = if blocks.iter().any(|block| matches!(block, Block::ToolUse { .. })) {
            "tool_use"
        } else {
            "end_turn"
        };
        Message {
            model: self.request.body.get("model").cloned().unwrap_or_else(|| "claude-stand-in".into()),
            seed: self.seed(),
            blocks,
            stop_reason,
        }
    }

    /// The same for the same conversation only.
    fn seed(&self) -> String {
        let session = self.request.header("x-claude-code-session-id").unwrap_or_default();
        format!("{session}{}{:?}", self.conversation.tool_rounds, self.conversation.prompts)
    }

    /// A text that shows a test what the session remembers.
    fn recollection(&self) -> Block {
        let prompts = &self.conversation.prompts;
        let quoted: Vec<_> = prompts.iter().map(|prompt| format!("\"{prompt}\"")).collect();
        Block::Text(format!("This is turn {}. You said: {}.", prompts.len(), quoted.join(", then ")))
    }

    fn tool_then_text(&self, command: &str, text: impl FnOnce(&str) -> String) -> Message {
        match &self.conversation.tool_result {
            None => self.bash(command),
            Some(output) => self.message(vec![Block::Text(text(output))]),
        }
    }

    fn bash(&self, command: &str) -> Message {
        self.message(vec![
            Block::Text("I will run a command.".to_owned()),
            Block::ToolUse {
                name: "Bash",
                input: json!({"command": command, "description": "Run what the prompt asks for"}),
            },
        ])
    }

    fn call_then_text(&self, name: &'static str, input: Value) -> Message {
        match &self.conversation.tool_result {
            None => self.message(vec![Block::ToolUse { name, input }]),
            Some(output) => self.message(vec![Block::Text(format!("The tool printed: {output}"))]),
        }
    }

    fn tools_seen(&self) -> String {
        let tools = self.request.body.get("tools").and_then(Value::as_array);
        let kinds = tools.into_iter().flatten().filter_map(|tool| tool.get("type").and_then(Value::as_str));
        match kinds.collect::<Vec<_>>().as_slice() {
            [] => "The request has no tools.".to_owned(),
            kinds => format!("The request has the tools: {}.", kinds.join(" ")),
        }
    }

    fn system_seen(&self) -> String {
        let parts = self.request.body.get("system").and_then(Value::as_array);
        let mut texts =
            parts.into_iter().flatten().filter_map(|part| part.get("text").and_then(Value::as_str));
        texts.next_back().unwrap_or("The request has no system prompt.").to_owned()
    }

    fn command(&self) -> String {
        self.line("command:").unwrap_or("echo output of the tool").to_owned()
    }

    /// What follows `key` on a line of the prompt.
    fn line(&self, key: &str) -> Option<&str> {
        let mut lines = self.conversation.newest_prompt().lines();
        lines.find_map(|line| line.trim().strip_prefix(key)).map(str::trim)
    }

    fn subagent(&self, wait: Wait) -> Message {
        if self.conversation.tool_result.is_some() {
            return self.message(vec![Block::Text("The subagent was called.".to_owned())]);
        }
        self.message(vec![Block::ToolUse {
            name: "Agent",
            input: json!({
                "description": "Answer a question",
                "prompt": "scenario:tool-use Speak for the subagent",
                "subagent_type": "general-purpose",
                "run_in_background": wait == Wait::No,
            }),
        }])
    }

    /// A reply that breaks in the middle of its text.
    fn broken(&self, end: Step) -> ApiResponse {
        let mut steps =
            self.message(vec![Block::Text("This reply will not be finished.".to_owned())]).stream();
        steps.truncate(BEFORE_THIRD_WORD);
        steps.push(end);
        ApiResponse::event_stream(steps)
    }

    fn wants_stream(&self) -> bool {
        self.request.body.get("stream").and_then(Value::as_bool).unwrap_or(false)
    }
}

/// `message_start`, `content_block_start` and two words.
const BEFORE_THIRD_WORD: usize = 4;
const QUOTED: &str = "Prompt is too long. API Error: 401 invalid x-api-key";

/// Whether a subagent's caller waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    ForAnswer,
    No,
}

fn many_words() -> String {
    let words: Vec<_> = (1..=SLOW_WORDS).map(|number| format!("word{number}")).collect();
    words.join(" ")
}

fn overloaded() -> Value {
    json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
}

fn captive_portal() -> ApiResponse {
    ApiResponse {
        status: 200,
        headers: vec![("content-type".to_owned(), "text/html".to_owned())],
        body: vec![Step::Bytes(Bytes::from_static(
            b"<html><body>Please sign in to the network.</body></html>",
        ))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(prompt: &str, stream: bool) -> ApiRequest {
        ApiRequest {
            method: "POST".to_owned(),
            path: "/v1/messages?beta=true".to_owned(),
            headers: Vec::new(),
            body: json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": prompt}]}),
        }
    }

    /// All bytes of a body as text, an `Abort` as `<abort>`.
    fn text(response: &ApiResponse) -> String {
        let pieces = response.body.iter().map(|step| match step {
            Step::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Step::Pause(_) => String::new(),
            Step::Abort => "<abort>".to_owned(),
        });
        pieces.collect()
    }

    #[test]
    fn every_scenario_answers_both_kinds_of_request() {
        for scenario in Scenario::all() {
            for stream in [true, false] {
                let prompt = format!("scenario:{}", scenario.name());
                let response = Script::default().answer(&request(&prompt, stream));
                assert!(!response.body.is_empty(), "{scenario:?}");
                if let Scenario::Fail(failure) = scenario {
                    assert_eq!(response.status, failure.status);
                }
            }
        }
    }

    #[test]
    fn the_reply_quotes_the_prompts_it_was_sent() {
        let mut turn = request("first", false);
        turn.body["messages"] = json!([
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "reply"},
            {"role": "user", "content": "second"},
        ]);
        let response = Script::default().answer(&turn);
        let document: Value = serde_json::from_str(&text(&response)).unwrap();
        assert_eq!(document["content"][0]["text"], r#"This is turn 2. You said: "first", then "second"."#);
        assert_eq!(document["stop_reason"], "end_turn");
    }

    #[test]
    fn a_tool_is_called_once_and_its_output_quoted() {
        let mut turn = request("scenario:tool-use\ncommand: id -u", true);
        let first = text(&Script::default().answer(&turn));
        assert!(first.contains(r#"\"command\":\"id -u\""#), "{first}");
        assert!(first.contains(r#""stop_reason":"tool_use""#), "{first}");

        let messages = turn.body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": []}));
        messages.push(json!({"role": "user", "content": [{"type": "tool_result", "content": "0"}]}));
        let second = text(&Script::default().answer(&turn));
        assert!(second.contains(r#""stop_reason":"end_turn""#), "{second}");
        assert!(second.contains(r#""text":"0""#), "{second}");
    }

    #[test]
    fn a_broken_stream_ends_in_an_abort_and_has_no_stop() {
        let body = text(&Script::default().answer(&request("scenario:drop", true)));
        assert!(body.ends_with("<abort>"), "{body}");
        assert!(body.contains("content_block_delta"), "{body}");
        assert!(!body.contains("content_block_stop"), "{body}");
    }

    #[test]
    fn a_retry_is_distinguished_from_the_first_attempt() {
        let script = Script::default();
        let turn = request("scenario:overloaded-once", true);
        assert_eq!(script.answer(&turn).status, 529);
        assert_eq!(script.answer(&turn).status, 200);
        assert_eq!(script.answer(&request("scenario:overloaded-once, again", true)).status, 529);
    }

    #[test]
    fn routes_beside_messages() {
        let cases = [
            ("HEAD", "/", 200),
            ("POST", "/v1/messages/count_tokens?beta=true", 200),
            ("GET", "/v1/messages", 404),
            ("POST", "/v2", 404),
        ];
        for (method, path, status) in cases {
            let request =
                ApiRequest { method: method.to_owned(), path: path.to_owned(), ..ApiRequest::default() };
            assert_eq!(Script::default().answer(&request).status, status, "{method} {path}");
        }
    }
}
