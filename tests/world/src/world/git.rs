//! A git repository: over plain files ("dumb" HTTP) at `https://git.test/demo.git`, and through git's own server program, which
//! also takes pushes, at `https://ANYTHING.git.test/demo.git`.

use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};

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
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let output = tokio::task::spawn_blocking(move || http_backend(variables, &body)).await??;
    response(&output)
}

#[expect(clippy::disallowed_methods, reason = "git's own server is what clients are tested against")]
fn http_backend(
    variables: impl IntoIterator<Item = (&'static str, String)>,
    body: &[u8],
) -> io::Result<Vec<u8>> {
    let mut child = Command::new("git")
        .arg("http-backend")
        .envs(variables)
        .env("GIT_PROJECT_ROOT", repository())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let sent = body.to_vec();
    // On a thread of its own: git may answer before it has read everything.
    let sending = std::thread::spawn(move || input.write_all(&sent));
    let output = child.wait_with_output()?;
    drop(sending.join());
    Ok(output.stdout)
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
