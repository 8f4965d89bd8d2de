//! `git http-backend`: one request, streamed in both directions.

use std::path::Path;
use std::process::ExitStatus;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use crate::GateError;
use crate::git::{self, Limits};

/// The maximum size in bytes of an answer's head.
const HEAD: u64 = 16 * 1024;
const PIECE: usize = 64 * 1024;

pub(crate) const RECEIVE_PACK: &str = "git-receive-pack";

/// The body of an answer.
pub(crate) type Body = Channel<Bytes, std::io::Error>;

/// A validated request of git's smart HTTP.
pub(crate) struct Call<'a> {
    /// The repository's folder.
    pub(crate) repository: &'a Path,
    /// `info/refs`, `git-upload-pack` or `git-receive-pack`.
    pub(crate) service: &'static str,
    pub(crate) query: &'static str,
    pub(crate) head: &'a Parts,
}

/// A git process that handles a request.
pub(crate) struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl Call<'_> {
    fn limits(&self) -> Limits {
        if self.service == RECEIVE_PACK { Limits::PUSH } else { Limits::READ }
    }

    /// Starts git.
    pub(crate) fn start(&self) -> Result<Running, GateError> {
        let mut git = git::server(self.limits());
        let name = self.repository.file_name().unwrap_or_default();
        let mut path = std::ffi::OsString::from("/");
        path.push(name);
        path.push("/");
        path.push(self.service);
        git.arg("http-backend")
            .env("GIT_PROJECT_ROOT", self.repository.parent().unwrap_or(self.repository))
            .env("PATH_INFO", path)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REQUEST_METHOD", self.head.method.as_str())
            .env("QUERY_STRING", self.query)
            // Without a user, git refuses pushes.
            .env("REMOTE_USER", "sandbox");
        for (header, variable) in [
            ("content-type", "CONTENT_TYPE"),
            ("content-encoding", "HTTP_CONTENT_ENCODING"),
            ("git-protocol", "HTTP_GIT_PROTOCOL"),
        ] {
            if let Some(value) = self.head.headers.get(header).and_then(|value| value.to_str().ok()) {
                git.env(variable, value);
            }
        }
        let mut child = git::start(git.stdin(std::process::Stdio::piped()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            let message = "it has no streams".to_owned();
            return Err(GateError::Git { operation: "answer", message });
        };
        Ok(Running { child, stdin, stdout: BufReader::new(stdout), stderr })
    }
}

impl Running {
    /// Passes the body to git, of which `first` was read already, and returns the answer when its
    /// head has arrived. `ended` is awaited when git has ended, before the answer ends.
    ///
    /// A body that breaks off ends, which git treats as an incomplete request. If `to_the_end` is
    /// set, git continues after the client has disconnected: it completes every request that it
    /// received in full.
    pub(crate) async fn answer<F: Future<Output = ()> + Send + 'static>(
        self,
        first: Vec<u8>,
        body: Incoming,
        to_the_end: bool,
        ended: F,
    ) -> Result<Response<Body>, GateError> {
        let Self { mut child, stdin, mut stdout, stderr } = self;
        tokio::spawn(feed(stdin, first, body));
        let messages = tokio::spawn(git::read_messages(stderr));
        let head = read_head(&mut stdout).await;
        let (mut sender, channel) = Channel::new(4);
        let response = match head {
            Some(head) => head.body(channel),
            None => Response::builder().status(StatusCode::BAD_GATEWAY).body(channel),
        };
        tokio::spawn(async move {
            let gone = !pass(&mut stdout, &mut sender, to_the_end).await;
            // Closing the pipe also ends git's children, which a signal to git would not reach.
            drop(stdout);
            let status = child.wait().await;
            // Only the last process closes stderr.
            let messages = messages.await.unwrap_or_default();
            ended.await;
            report(status, gone, &messages);
            drop(sender);
        });
        response.map_err(|error| GateError::Git { operation: "answer", message: error.to_string() })
    }
}

/// Passes git's output on; with `to_the_end`, discards it after the client has gone. Returns
/// whether all of it was handled.
async fn pass(
    stdout: &mut BufReader<ChildStdout>,
    sender: &mut Sender<Bytes, std::io::Error>,
    to_the_end: bool,
) -> bool {
    let mut wanted = true;
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        match stdout.read_buf(&mut piece).await {
            Ok(0) | Err(_) => return true,
            Ok(_) if wanted => wanted = sender.send_data(piece.freeze()).await.is_ok(),
            Ok(_) => {}
        }
        if !wanted && !to_the_end {
            return false;
        }
    }
}

async fn feed(mut stdin: ChildStdin, first: Vec<u8>, mut body: Incoming) {
    // Git may answer before it has read everything; it leaves the rest unread.
    if stdin.write_all(&first).await.is_err() {
        return;
    }
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data()
            && stdin.write_all(&data).await.is_err()
        {
            return;
        }
    }
}

fn report(status: std::io::Result<ExitStatus>, gone: bool, messages: &[u8]) {
    let failed = !status.is_ok_and(|status| status.success());
    if failed && !gone {
        tracing::warn!(messages = git::shown(messages), "git failed to answer a request");
    }
}

/// The head of a CGI program's output: header lines, then an empty one.
async fn read_head(stdout: &mut BufReader<ChildStdout>) -> Option<hyper::http::response::Builder> {
    let mut head = Response::builder();
    let mut limited = stdout.take(HEAD);
    loop {
        let mut line = Vec::new();
        if limited.read_until(b'\n', &mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_ascii_end();
        if line.is_empty() {
            return Some(head);
        }
        let at = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(at)?;
        let value = value.get(1..).unwrap_or_default().trim_ascii_start();
        if name.eq_ignore_ascii_case(b"status") {
            head = head.status(StatusCode::from_bytes(value.get(..3)?).ok()?);
        } else {
            head = head.header(HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
        }
    }
}
