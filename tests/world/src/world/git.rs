//! A git repository: over plain files ("dumb" HTTP) at `https://git.test/demo.git`, and through
//! git's own server program, which also takes pushes, at `https://ANYTHING.git.test/demo.git`; at
//! `/NAME.git` is a copy that is made when it is first asked for.

use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tokio::sync::mpsc;

use super::routes::{Body, full, not_found};

/// The bare repository, made once.
#[expect(clippy::disallowed_methods, reason = "git makes the repository; no engine is involved")]
fn repository() -> &'static Path {
    static REPOSITORY: OnceLock<PathBuf> = OnceLock::new();
    REPOSITORY.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder").keep();
        let script = "git init -q -b main work && cd work && echo hello > greeting.txt && git add . \
             && git -c user.name=e2e -c user.email=e2e@example.test commit -q -m first \
             && git clone -q --bare . ../demo.git && cd ../demo.git && git update-server-info \
             && git config http.receivepack true";
        let made =
            Command::new("sh").args(["-ec", script]).current_dir(&folder).status().expect("git on the host");
        assert!(made.success(), "git could not make the test repository");
        folder
    })
}

/// Makes the repository `name` unless it is there.
#[expect(clippy::disallowed_methods, reason = "git makes the repository; no engine is involved")]
fn copy_of_demo(name: &str) -> io::Result<()> {
    static MAKING: Mutex<()> = Mutex::new(());
    let plain = name.strip_suffix(".git").unwrap_or_default();
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if plain.is_empty()
        || !plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        || repository().join(name).exists()
    {
        return Ok(());
    }
    let script = "cp -r demo.git \"$1\" && cd \"$1\" && git config receive.advertisePushOptions true \
         && git config receive.certNonceSeed seed && git config receive.shallowUpdate true";
    let made = Command::new("sh").args(["-ec", script, "sh", name]).current_dir(repository()).status()?;
    if made.success() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
}

pub(super) fn answer(path: &str) -> Response<Body> {
    let relative = Path::new(path.trim_start_matches('/'));
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    match std::fs::read(repository().join(relative)) {
        Ok(content) if plain => Response::new(full(content)),
        _ => not_found(),
    }
}

/// Lets `git http-backend` answer.
pub(super) async fn serve(request: Request<Incoming>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let header = |name: &str| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let variables = [
        ("REQUEST_METHOD", head.method.to_string()),
        ("PATH_INFO", head.uri.path().to_owned()),
        ("QUERY_STRING", head.uri.query().unwrap_or_default().to_owned()),
        ("CONTENT_TYPE", header("content-type")),
        ("HTTP_CONTENT_ENCODING", header("content-encoding")),
        ("GIT_PROTOCOL", header("git-protocol")),
        ("GIT_HTTP_EXPORT_ALL", "1".to_owned()),
    ];
    let name = head.uri.path().trim_start_matches('/').split('/').next().unwrap_or_default().to_owned();
    let (sender, receiver) = mpsc::channel(16);
    // As a server does that takes the end of a connection for the end of a body.
    let passing = tokio::spawn(async move {
        let mut body = body;
        while let Some(Ok(frame)) = body.frame().await {
            let sent = frame.into_data().map(|data| sender.send(data));
            if let Ok(sent) = sent
                && sent.await.is_err()
            {
                break;
            }
        }
    });
    let answering = tokio::task::spawn_blocking(move || {
        copy_of_demo(&name)?;
        http_backend(variables, receiver)
    });
    let output = answering.await??;
    passing.abort();
    response(&output)
}

#[expect(clippy::disallowed_methods, reason = "git's own server is what clients are tested against")]
fn http_backend(
    variables: impl IntoIterator<Item = (&'static str, String)>,
    mut body: mpsc::Receiver<Bytes>,
) -> io::Result<Vec<u8>> {
    let mut child = Command::new("git")
        .arg("http-backend")
        .envs(variables)
        .env("GIT_PROJECT_ROOT", repository())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    // On a thread of its own, which ends with the request: git may answer before it has read
    // everything.
    std::thread::spawn(move || {
        while let Some(piece) = body.blocking_recv() {
            if input.write_all(&piece).is_err() {
                break;
            }
        }
    });
    Ok(child.wait_with_output()?.stdout)
}

/// What a CGI program printed: header lines, an empty line, a body.
fn response(output: &[u8]) -> io::Result<Response<Body>> {
    let end = output.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = end.and_then(|end| output.split_at_checked(end)).ok_or(io::ErrorKind::InvalidData)?;
    let mut response = Response::new(full(body.get(4..).unwrap_or_default().to_vec()));
    for line in String::from_utf8_lossy(head).lines() {
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        if name.eq_ignore_ascii_case("status") {
            let code = value.get(..3).unwrap_or_default();
            *response.status_mut() = StatusCode::from_bytes(code.as_bytes()).map_err(io::Error::other)?;
        } else if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}
