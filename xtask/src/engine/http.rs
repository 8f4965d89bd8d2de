//! The few HTTP requests that tasks send to an engine's socket, over HTTP/1.0 so that a response
//! ends with its connection.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// An engine's socket.
#[derive(Debug, Clone)]
pub(crate) struct Socket(PathBuf);

/// A complete response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Socket {
    /// The socket at a path.
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Parses a `unix://` URL or a plain absolute path; other engines are not supported.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let path = text.strip_prefix("unix://").unwrap_or(text);
        path.starts_with('/').then(|| Self::new(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.0.display())
    }

    /// Sends a request without a body.
    pub(crate) fn request(&self, method: &str, target: &str) -> Result<Answer> {
        self.exchange(method, target, Payload::empty())
    }

    /// Sends a request with a JSON document as its body.
    pub(crate) fn send_json(&self, method: &str, target: &str, document: &Value) -> Result<Answer> {
        let text = document.to_string();
        let payload =
            Payload { kind: "application/json", length: text.len() as u64, bytes: Box::new(text.as_bytes()) };
        self.exchange(method, target, payload)
    }

    /// Sends a request with a file as its body.
    pub(crate) fn send_file(&self, method: &str, target: &str, file: &Path) -> Result<Answer> {
        let open = File::open(file).with_context(|| format!("failed to read {}", file.display()))?;
        let payload =
            Payload { kind: "application/x-tar", length: open.metadata()?.len(), bytes: Box::new(open) };
        self.exchange(method, target, payload)
    }

    /// Sends a request whose response does not end by itself; returns the body as a stream, once
    /// the engine has reported success.
    pub(crate) fn follow(&self, method: &str, target: &str) -> Result<impl Read + use<>> {
        let context = || format!("{method} {target} on {}", self.url());
        let mut stream = BufReader::new(self.send(method, target, Payload::empty())?);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).with_context(context)? == 0 {
                break;
            }
        }
        let mut answer = parse_answer(&head).with_context(context)?;
        if !(200..300).contains(&answer.status) {
            stream.read_to_string(&mut answer.body).with_context(context)?;
            answer.ok().with_context(context)?;
        }
        Ok(stream)
    }

    fn exchange(&self, method: &str, target: &str, payload: Payload<'_>) -> Result<Answer> {
        let context = || format!("{method} {target} on {}", self.url());
        let mut stream = self.send(method, target, payload)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).with_context(context)?;
        parse_answer(&String::from_utf8_lossy(&bytes)).with_context(context)
    }

    fn send(&self, method: &str, target: &str, mut payload: Payload<'_>) -> Result<UnixStream> {
        let context = || format!("{method} {target} on {}", self.url());
        let mut stream = UnixStream::connect(&self.0).with_context(context)?;
        // An import of a large image takes a while; an engine that is silent for minutes is broken.
        stream.set_read_timeout(Some(Duration::from_mins(5)))?;
        let head = format!(
            "{method} {target} HTTP/1.0\r\nHost: d\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
            payload.kind, payload.length
        );
        stream.write_all(head.as_bytes()).with_context(context)?;
        io::copy(&mut payload.bytes, &mut stream).with_context(context)?;
        Ok(stream)
    }
}

/// The body of a request.
struct Payload<'a> {
    kind: &'static str,
    length: u64,
    bytes: Box<dyn Read + 'a>,
}

impl Payload<'_> {
    fn empty() -> Self {
        Self { kind: "application/json", length: 0, bytes: Box::new(io::empty()) }
    }
}

impl Answer {
    /// The body, if the engine reported success.
    pub(crate) fn ok(self) -> Result<String> {
        if !(200..300).contains(&self.status) {
            bail!("the engine responded with {}: {}", self.status, self.body.trim());
        }
        Ok(self.body)
    }
}

/// The podman version behind a socket, if podman responds.
pub(crate) fn ping(socket: &Socket) -> Option<String> {
    let answer = socket.request("GET", "/_ping").ok()?;
    let version = header(&answer.head, "libpod-api-version")?;
    (answer.status == 200).then_some(version)
}

fn header(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

fn parse_answer(text: &str) -> Result<Answer> {
    let (head, body) = text.split_once("\r\n\r\n").context("the response has an incomplete head")?;
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok())
        .context("the response has no status")?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_split_into_its_parts() {
        let answer =
            parse_answer("HTTP/1.0 404 Not Found\r\nLibpod-API-Version: 5.4.2\r\n\r\nno such image").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (404, "no such image"));
        assert_eq!(header(&answer.head, "libpod-api-version").as_deref(), Some("5.4.2"));
        assert!(answer.ok().unwrap_err().to_string().contains("404: no such image"));
    }

    #[test]
    fn response_that_is_not_http_is_an_error() {
        for text in ["", "SSH-2.0", "HTTP/1.0 abc\r\n\r\n"] {
            assert!(parse_answer(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_unix_sockets_are_engines() {
        for (text, expected) in [
            ("unix:///run/p.sock", Some("unix:///run/p.sock")),
            ("/run/p.sock", Some("unix:///run/p.sock")),
            ("tcp://h:1", None),
            ("", None),
        ] {
            assert_eq!(Socket::parse(text).map(|s| s.url()).as_deref(), expected, "{text}");
        }
    }
}
