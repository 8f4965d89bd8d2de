//! Messages to Claude Code, in its input format.

use std::io;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::time::Instant;
use tokio_util::io::StreamReader;

/// A user's message in a running conversation: see [`Task::converse`](crate::Task::converse).
///
/// ```
/// let message = sandbox::Message::from("and the other test too");
/// assert_eq!(message, sandbox::Message::new(serde_json::json!("and the other test too")));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    content: Value,
}

impl Message {
    /// A message with this content, as in the Messages API: a text, or a list of blocks such as
    /// texts and images.
    #[must_use]
    pub fn new(content: Value) -> Self {
        Self { content }
    }

    /// The line that Claude Code reads.
    pub(super) fn to_line(&self) -> Bytes {
        let message = json!({"type": "user", "message": {"role": "user", "content": self.content}});
        Bytes::from(format!("{message}\n"))
    }
}

impl<T: Into<String>> From<T> for Message {
    fn from(text: T) -> Self {
        Self::new(Value::String(text.into()))
    }
}

/// When the last message was sent; empty while more may come.
pub(super) type LastMessage = Arc<OnceLock<Instant>>;

/// The stdin of Claude Code: `first`, then the messages as they come.
pub(super) fn input(
    first: String,
    messages: impl Stream<Item = Message> + Send + Unpin + 'static,
    last: LastMessage,
) -> impl AsyncRead + Send + Unpin + 'static {
    let end = stream::poll_fn(move |_| {
        let _ = last.set(Instant::now());
        std::task::Poll::Ready(None)
    });
    let all = stream::iter([Message::from(first)]).chain(messages).chain(end);
    StreamReader::new(all.map(|message| Ok::<_, io::Error>(message.to_line())))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn each_message_is_a_line_and_the_end_is_recorded() {
        let (last, mut text) = (LastMessage::default(), String::new());
        let image = json!([{"type": "image"}]);
        let messages = stream::iter([Message::from("a\n\"b\""), Message::new(image)]);
        let mut input = input("first".to_owned(), messages, Arc::clone(&last));
        assert!(last.get().is_none());
        input.read_to_string(&mut text).await.unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let contents: Vec<&Value> = lines.iter().map(|line| &line["message"]["content"]).collect();
        assert_eq!(contents, [&json!("first"), &json!("a\n\"b\""), &json!([{"type": "image"}])]);
        assert!(last.get().is_some());
    }
}
