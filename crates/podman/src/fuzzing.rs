//! Entry points of the fuzzers: arbitrary answers of the engine.
//!
//! Only there with the feature `fuzzing`, and in unit tests, which run every seed. A property that
//! does not hold is a panic. The fuzz programs are in the folder `fuzz` of the repository.

use std::collections::BTreeMap;
use std::error::Error;
use std::iter;
use std::path::PathBuf;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use fuzz_input::{Input, pieces};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, empty, sink};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};

use crate::{BuildRequest, Chunk, Engine, EngineError, NetworkRequest, Output, first_file};

const PING: &[u8] =
    b"HTTP/1.1 200 OK\r\nLibpod-Api-Version: 5.4.2\r\nConnection: close\r\nContent-Length: 2\r\n\r\nOK";
/// Maximum length of an error's text: more would fill a terminal.
const LONGEST_ERROR: usize = 16 * 1024;
/// The value of an environment variable in an inspection: no error may quote it.
const SECRET: &str = "hunter2";

/// An engine's socket.
struct Socket {
    _folder: TempDir,
    path: PathBuf,
    listener: UnixListener,
    runtime: Runtime,
}

static SOCKET: LazyLock<Socket> = LazyLock::new(|| made().unwrap_or_else(|error| panic!("{error}")));

fn made() -> std::io::Result<Socket> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("engine.sock");
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        UnixListener::bind(&path)?
    };
    Ok(Socket { _folder: folder, path, listener, runtime })
}

/// The first byte chooses the call, the second one the head of the answer, the next ones how the
/// body is split; the rest is the body.
///
/// # Panics
///
/// If more output comes out than went in, or an error contains control characters or environment
/// variables of an inspection.
pub fn engine_answer(data: &[u8]) {
    let mut input = Input::new(data);
    let (call, head) = (input.byte(), input.byte());
    let sizes = input.sizes();
    let body = input.rest();
    let answer = answer(head, body, &sizes);
    let socket = &*SOCKET;
    let result = socket.runtime.block_on(async {
        tokio::select! {
            biased;
            result = asked(call, body.len()) => result,
            never = serve(&answer) => match never {},
        }
    });
    if let Err(error) = result {
        let is_inspection = matches!(call % 18, 0 | 3) && matches!(head % 8, 0 | 1);
        check(&error, is_inspection);
    }
}

async fn asked(call: u8, sent: usize) -> Result<(), EngineError> {
    let engine = Engine::connect(&SOCKET.path).await?;
    match call % 18 {
        0 => engine.inspect_container("0f").await.map(drop),
        1 => engine.wait_container("0f").await.map(drop),
        2 => engine.list_containers(&[]).await.map(drop),
        3 => engine.image("localhost/x:1").await.map(drop),
        4 => engine.list_images(&[]).await.map(drop),
        5 => engine.load_images(empty()).await.map(drop),
        6 => engine.export_images(&["localhost/x:1"], &mut sink()).await,
        7 => engine.create_network(&network()).await,
        8 => engine.remove_network("n").await,
        9 => engine.network_exists("n").await.map(drop),
        10 => engine.list_networks(&[]).await.map(drop),
        11 => engine.facts().await.map(drop),
        12 => {
            let output = engine.attach_output("0f").await?;
            read(output, sent).await
        }
        13 => read(engine.logs("0f"), sent).await,
        14 => {
            let request = BuildRequest::new("localhost/x:1", Bytes::new(), BTreeMap::new());
            let mut length = 0;
            let mut on_line = |line: &str| length += line.len();
            let built = engine.build(request, &mut on_line).await;
            assert!(length <= sent, "a build has more output than was sent");
            built.map(drop)
        }
        15 => {
            let archive = engine.download("0f", "/etc/ssl/cert.pem").await?;
            let text = archive.and_then(|archive| first_file(&archive));
            // Each invalid byte is replaced by three.
            assert!(text.is_none_or(|text| text.len() <= 3 * sent), "an archive grew");
            Ok(())
        }
        16 => engine.path_facts("0f", "/srv").await.map(drop),
        _ => engine.remove_container("0f").await,
    }
}

fn network() -> NetworkRequest {
    NetworkRequest {
        name: "n".to_owned(),
        bridge: "b".to_owned(),
        subnet: None,
        internal: true,
        labels: BTreeMap::new(),
    }
}

async fn read(mut output: Output, sent: usize) -> Result<(), EngineError> {
    let mut length = 0;
    while let Some(chunk) = output.next().await {
        let (Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) = chunk?;
        length += bytes.len();
        assert!(length <= sent, "more output came than was sent");
    }
    Ok(())
}

/// The pieces of the answer.
fn answer(head: u8, body: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let length = body.len();
    let status = match head % 8 {
        0 => "200 OK",
        // As an HTTP stream of chunks.
        1 => {
            let begin =
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            let filled = pieces(body, sizes).into_iter().filter(|piece| !piece.is_empty());
            let chunk = |piece: &[u8]| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            let chunks = filled.map(chunk);
            return iter::once(begin).chain(chunks).chain([b"0\r\n\r\n".to_vec()]).collect();
        }
        // As the streams of a container.
        2 => {
            let begin = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n".to_vec();
            let rest = pieces(body, sizes).into_iter().map(<[u8]>::to_vec);
            return iter::once(begin).chain(rest).collect();
        }
        3 => "404 Not Found",
        4 => "409 Conflict",
        5 => "500 Internal Server Error",
        // In the head.
        6 => {
            let stat = STANDARD.encode(body);
            let text = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nX-Docker-Container-Path-Stat: {stat}\r\nContent-Length: 0\r\n\r\n"
            );
            return vec![text.into_bytes()];
        }
        // The whole answer.
        _ => return pieces(body, sizes).into_iter().map(<[u8]>::to_vec).collect(),
    };
    let begin = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    let rest = pieces(body, sizes).into_iter().map(<[u8]>::to_vec);
    iter::once(begin.into_bytes()).chain(rest).collect()
}

/// Answers every request except pings with `answer`.
async fn serve(answer: &[Vec<u8>]) -> std::convert::Infallible {
    loop {
        let Ok((mut stream, _)) = SOCKET.listener.accept().await else {
            continue;
        };
        if is_ping(&mut stream).await {
            let _ = stream.write_all(PING).await;
            continue;
        }
        for piece in answer {
            if stream.write_all(piece).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let _ = stream.shutdown().await;
        // Closing with unread input would look like a failure.
        let mut rest = [0; 1024];
        while stream.try_read(&mut rest).is_ok_and(|read| read > 0) {}
    }
}

/// Reads the head of a request.
async fn is_ping(stream: &mut UnixStream) -> bool {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_buf(&mut head).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    head.starts_with(b"GET /_ping ")
}

fn check(error: &EngineError, is_inspection: bool) {
    let first: &dyn Error = error;
    let chain = iter::successors(Some(first), |error| (*error).source());
    let text = chain.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    assert!(text.len() <= LONGEST_ERROR, "an error of {} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "an error contains control characters: {text:?}");
    assert!(!is_inspection || !text.contains(SECRET), "an error quotes the answer: {text}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_seed_passes() {
        fuzz_input::run_seeds("engine_answer", 30, super::engine_answer);
    }
}
