//! An agent's input: its prompt, and the messages that follow it on stdin.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt as _};
use sandbox::Message;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};

use crate::args::AgentInput;
use crate::failure::Failure;
use crate::printer::Printer;

/// The longest line of a message; the API accepts no larger request.
const LONGEST: u64 = 32 << 20;
/// The number of messages that may wait for the agent.
const WAITING: usize = 16;

/// How to pass a prompt.
const PASS: &str = "pass it as the last argument or on stdin";

/// Messages on stdin. A repeated attempt continues where the last one stopped.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Messages(Arc<Mutex<mpsc::Receiver<Message>>>);

impl Messages {
    /// Starts reading stdin. A line that is not a message is reported and skipped.
    pub(super) fn begin(printer: Printer) -> Self {
        let (sender, received) = mpsc::channel(WAITING);
        // A read of stdin cannot be cancelled, so it must not block a task of the runtime.
        std::thread::spawn(move || {
            let mut number: u64 = 0;
            while let Ok(Some(line)) = next_line() {
                number += 1;
                match parse(&line) {
                    Ok(None) => {}
                    Ok(Some(content)) => {
                        if sender.blocking_send(Message::new(content)).is_err() {
                            return;
                        }
                    }
                    Err(problem) => printer.warning(format_args!("stdin:{number}: {problem}")),
                }
            }
        });
        Self(Arc::new(Mutex::new(received)))
    }

    /// The messages that are still to come.
    pub(super) fn stream(&self) -> impl Stream<Item = Message> + Send + Unpin + 'static {
        let received = Arc::clone(&self.0);
        stream::unfold(received, async |received| {
            let message = received.lock().await.recv().await?;
            Some((message, received))
        })
        .boxed()
    }
}

/// The prompt: the argument, otherwise all of stdin or its first message.
pub(super) fn prompt(given: Option<String>, format: AgentInput) -> Result<String, Failure> {
    let prompt = match (given, format) {
        (Some(prompt), _) if prompt != "-" => prompt,
        (None, AgentInput::Text) if io::stdin().is_terminal() => {
            return Err(Failure::usage("no prompt given").with_hint(PASS));
        }
        (_, AgentInput::Text) => {
            let mut prompt = String::new();
            io::stdin().read_to_string(&mut prompt).map_err(Failure::doing("read the prompt from stdin"))?;
            prompt
        }
        (_, AgentInput::StreamJson) => first_message()?,
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty").with_hint(PASS));
    }
    Ok(prompt)
}

fn first_message() -> Result<String, Failure> {
    while let Some(line) = next_line().map_err(Failure::doing("read the prompt from stdin"))? {
        let content = parse(&line).map_err(|problem| Failure::usage(format!("stdin: {problem}")))?;
        match content {
            None => {}
            Some(Value::String(text)) => return Ok(text),
            Some(_) => {
                return Err(Failure::usage("the content of the first message must be a text")
                    .with_hint("pass the prompt as the last argument, and blocks in later messages"));
            }
        }
    }
    Err(Failure::usage("no message on stdin"))
}

/// The next line of stdin, cut if it is too long for a message; `None` at the end.
fn next_line() -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut stdin = io::stdin().lock();
    let read = stdin.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
    Ok((read > 0).then_some(line))
}

/// The content of the message in `line`; `None` for a blank line.
fn parse(line: &[u8]) -> Result<Option<Value>, String> {
    #[derive(Deserialize)]
    struct Line {
        r#type: String,
        message: Content,
    }
    #[derive(Deserialize)]
    struct Content {
        content: Value,
    }
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    match serde_json::from_slice(line) {
        Ok(Line { r#type, message: Content { content: content @ (Value::String(_) | Value::Array(_)) } })
            if r#type == "user" =>
        {
            Ok(Some(content))
        }
        _ => {
            Err(r#"not a message; write {"type":"user","message":{"role":"user","content":"…"}}"#.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_a_message_or_an_error() {
        let text = br#"{"type":"user","message":{"role":"user","content":"go on"}}"#;
        assert_eq!(parse(text), Ok(Some(Value::from("go on"))));
        let blocks = br#"{"type":"user","message":{"content":[{"type":"image"}]},"uuid":"x"}"#;
        assert!(parse(blocks).is_ok_and(|content| content.is_some_and(|content| content.is_array())));
        assert_eq!(parse(b" \n"), Ok(None));
        for line in
            ["go on", r#"{"type":"user"}"#, r#"{"type":"control","message":{"content":"x"}}"#, "\u{ff}"]
        {
            assert!(parse(line.as_bytes()).is_err_and(|problem| problem.contains("not a message")), "{line}");
        }
    }
}
