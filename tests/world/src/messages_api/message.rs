//! A reply of the model, sent as a stream of events or as one document.

use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use serde_json::json;

use super::exchange::Step;

/// One block of a reply.
#[derive(Debug, Clone)]
pub(super) enum Block {
    Thinking(String),
    Text(String),
    /// A text that is sent with a pause before each word.
    Trickle {
        text: String,
        pause: Duration,
    },
    ToolUse {
        name: &'static str,
        input: Value,
    },
}

/// A reply of the model before it is put into bytes.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) model: Value,
    /// Distinguishes this reply's id from those of other requests.
    pub(super) seed: String,
    pub(super) blocks: Vec<Block>,
    pub(super) stop_reason: &'static str,
}

impl Message {
    /// The reply as one document, for a request that did not ask for a stream.
    pub(super) fn document(&self) -> Value {
        let content: Vec<_> =
            self.blocks.iter().enumerate().map(|(index, block)| self.whole(index, block)).collect();
        let mut message = self.head();
        if let Some(fields) = message.as_object_mut() {
            fields.insert("content".to_owned(), content.into());
            fields.insert("stop_reason".to_owned(), self.stop_reason.into());
            fields.insert("usage".to_owned(), usage(OUTPUT_TOKENS));
        }
        message
    }

    /// The reply as server-sent events.
    pub(super) fn stream(&self) -> Vec<Step> {
        let mut steps = vec![self.start()];
        for (index, block) in self.blocks.iter().enumerate() {
            steps.extend(self.block_steps(index, block));
        }
        steps.push(event(&json!({
            "type": "message_delta",
            "delta": {"stop_reason": self.stop_reason, "stop_sequence": null},
            "usage": usage(OUTPUT_TOKENS),
        })));
        steps.push(event(&json!({"type": "message_stop"})));
        steps
    }

    /// The first event of the stream.
    pub(super) fn start(&self) -> Step {
        event(&json!({"type": "message_start", "message": self.head()}))
    }

    fn head(&self) -> Value {
        json!({
            "id": format!("msg_01StandIn{:016x}", hash(&self.seed)),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage(1),
        })
    }

    fn block_steps(&self, index: usize, block: &Block) -> Vec<Step> {
        let (empty, deltas) = match block {
            Block::Thinking(text) => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                vec![
                    json!({"type": "thinking_delta", "thinking": text}),
                    json!({"type": "signature_delta", "signature": SIGNATURE}),
                ],
            ),
            Block::Text(text) | Block::Trickle { text, .. } => (
                json!({"type": "text", "text": ""}),
                text.split_inclusive(' ').map(|word| json!({"type": "text_delta", "text": word})).collect(),
            ),
            Block::ToolUse { name, input } => (
                json!({"type": "tool_use", "id": self.tool_use_id(index), "name": name, "input": {}}),
                vec![json!({"type": "input_json_delta", "partial_json": input.to_string()})],
            ),
        };
        let mut steps =
            vec![event(&json!({"type": "content_block_start", "index": index, "content_block": empty}))];
        for delta in deltas {
            if let Block::Trickle { pause, .. } = block {
                steps.push(Step::Pause(*pause));
            }
            steps.push(event(&json!({"type": "content_block_delta", "index": index, "delta": delta})));
        }
        steps.push(event(&json!({"type": "content_block_stop", "index": index})));
        steps
    }

    fn whole(&self, index: usize, block: &Block) -> Value {
        match block {
            Block::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}),
            Block::Text(text) | Block::Trickle { text, .. } => json!({"type": "text", "text": text}),
            Block::ToolUse { name, input } => {
                json!({"type": "tool_use", "id": self.tool_use_id(index), "name": name, "input": input})
            }
        }
    }

    fn tool_use_id(&self, index: usize) -> String {
        format!("toolu_01StandIn{:014x}{index:02}", hash(&self.seed) >> 8)
    }
}

/// One server-sent event, named after the `type` of its data.
pub(super) fn event(data: &Value) -> Step {
    let name = data.get("type").and_then(Value::as_str).unwrap_or("ping");
    Step::Bytes(Bytes::from(format!("event: {name}\ndata: {data}\n\n")))
}

const OUTPUT_TOKENS: u64 = 42;
const SIGNATURE: &str = "c3RhbmQtaW4gc2lnbmF0dXJl";

fn usage(output_tokens: u64) -> Value {
    json!({
        "input_tokens": 1200,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 9000,
        "output_tokens": output_tokens,
        "service_tier": "standard",
    })
}

fn hash(seed: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    hasher.finish()
}
