//! Tests of the client against a scripted engine: garbage, failures, and no answer at all.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::error::EngineError;
use crate::libpod::Libpod;
use crate::*;

const PING: &str = "HTTP/1.1 200 OK\r\nLibpod-Api-Version: 5.4.2\r\nContent-Length: 2\r\n\r\nOK";

/// A socket whose connections get one answer each, in order. A connection without an answer is
/// closed at once.
struct Script {
    _folder: tempfile::TempDir,
    socket: PathBuf,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut answers = answers.into_iter().map(Into::into).collect::<Vec<Vec<u8>>>().into_iter();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                if let Some(answer) = answers.next() {
                    read_request(&mut stream).await;
                    stream.write_all(&answer).await.unwrap();
                }
            }
        });
        Self { _folder: folder, socket }
    }

    async fn connect(&self) -> Result<Engine, EngineError> {
        Engine::connect(&self.socket).await
    }

    /// An engine that connects normally, and answers the next call with `answer`.
    async fn engine_then(answer: impl Into<Vec<u8>>) -> (Self, Engine) {
        let script = Self::new([PING.as_bytes().to_vec(), answer.into()]);
        let engine = script.connect().await.unwrap();
        (script, engine)
    }
}

/// Reads a request with its body, and returns it in lower case.
async fn read_request(stream: &mut UnixStream) -> String {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse().unwrap() {
                return text;
            }
        }
        if stream.read_buf(&mut request).await.unwrap() == 0 {
            return text;
        }
    }
}

fn json(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The error with its causes.
fn chain(error: &EngineError) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn connection_requires_a_supported_podman() {
    let pong = |header: &str| format!("HTTP/1.1 200 OK\r\n{header}Content-Length: 2\r\n\r\nOK");
    for (answer, expected) in [
        (PING.to_owned(), None),
        (pong("Libpod-API-Version: 4.3.1\r\n"), None),
        (pong(""), Some("is this podman's socket")),
        (pong("Libpod-Api-Version: new\r\n"), Some("is this podman's socket")),
        (pong("Libpod-Api-Version: 4.2.9\r\n"), Some("too old")),
        (pong("Libpod-Api-Version: 3.4.4\r\n"), Some("too old")),
        (json("500 Internal Server Error", r#"{"message":"broken"}"#), Some("answered 500: broken")),
        ("SSH-2.0-OpenSSH_9.2\r\n".to_owned(), Some("invalid answer")),
        ("HTTP/1.1 200 OK\r\nLibpod-Ap".to_owned(), Some("hung up")),
        (String::new(), Some("hung up")),
    ] {
        let connected = Script::new([answer.clone()]).connect().await;
        match (connected, expected) {
            (Ok(_), None) => {}
            (Err(error), Some(expected)) => {
                assert!(chain(&error).contains(expected), "{answer:?}: {}", chain(&error));
            }
            (connected, expected) => panic!("{answer:?}: expected {expected:?}, got {connected:?}"),
        }
    }
}

#[tokio::test]
async fn socket_without_an_engine_is_unreachable() {
    let error = Engine::connect(Path::new("/no/such.sock")).await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    let (script, engine) = Script::engine_then("").await;
    drop(script);
    assert!(engine.inspect_container("0f").await.unwrap_err().is_unreachable());
    assert!(engine.start_container("0f").await.unwrap_err().is_unreachable());
}

#[tokio::test]
async fn engine_that_does_not_answer_exceeds_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("engine.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let error = Libpod::new(&socket).ping(Duration::from_millis(20)).await.unwrap_err();
    assert!(error.is_deadline(), "{error:?}");
}

#[tokio::test]
async fn exit_code_is_a_number_or_an_error() {
    for (answer, expected) in [
        (json("200 OK", "0\n"), Some(0)),
        (json("200 OK", "137\n"), Some(137)),
        (json("200 OK", "-1"), Some(-1)),
        (json("200 OK", ""), None),
        (json("200 OK", "null"), None),
        (json("200 OK", r#"{"StatusCode":0}"#), None),
        (json("404 Not Found", r#"{"message":"no such container"}"#), None),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n0".to_owned(), None),
        (String::new(), None),
    ] {
        let (_script, engine) = Script::engine_then(answer.clone()).await;
        assert_eq!(engine.wait_container("0f").await.ok(), expected, "{answer:?}");
    }
}

#[tokio::test]
async fn short_polling_interval_is_used_only_without_another_report() {
    for (version, watched, expected) in
        [("5.4.2", false, "interval=5s"), ("4.3.1", false, "interval=10ms"), ("4.3.1", true, "interval=5s")]
    {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            let pong = PING.replace("5.4.2", version);
            stream.write_all(pong.as_bytes()).await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = read_request(&mut stream).await;
            stream.write_all(json("200 OK", "0\n").as_bytes()).await.unwrap();
            asked
        });
        let engine = Engine::connect(&socket).await.unwrap();
        let code = if watched {
            engine.wait_container_watched("0f").await
        } else {
            engine.wait_container("0f").await
        };
        assert_eq!(code.ok(), Some(0));
        assert!(served.await.unwrap().contains(expected), "{version}, {watched}");
    }
}

#[tokio::test]
async fn engine_that_dies_during_the_wait_is_unreachable() {
    let (_script, engine) =
        Script::engine_then("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let error = engine.wait_container("0f").await.unwrap_err();
    assert!(error.is_unreachable() && chain(&error).contains("hung up"), "{error:?}");
}

#[tokio::test]
async fn invalid_inspection_is_an_error_without_its_content() {
    let endless =
        format!("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n{}", " ".repeat(33 * 1024 * 1024));
    for answer in [
        json("200 OK", "{}"),
        json("200 OK", "[]"),
        json("200 OK", r#"{"Config":{"Env":["TOKEN=hunter2"]"#),
        json("200 OK", r#"{"Id":"0f","Config":{"Env":"TOKEN=hunter2"}}"#),
        json("503 Service Unavailable", "<html>"),
        endless,
    ] {
        let (_script, engine) = Script::engine_then(answer).await;
        let error = engine.inspect_container("0f").await.unwrap_err();
        assert!(!chain(&error).contains("hunter2") && !format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn created_container_must_have_an_id() {
    for body in ["{}", r#"{"Id":"","Warnings":[]}"#, r#"{"Id":"../x","Warnings":[]}"#, "null", "{"] {
        let (_script, engine) = Script::engine_then(json("201 Created", body)).await;
        assert!(engine.create_container("n", serde_json::Value::Null).await.is_err(), "{body}");
    }
    let (_script, engine) = Script::engine_then(json("201 Created", r#"{"Id":"0f","Warnings":["x"]}"#)).await;
    assert_eq!(engine.create_container("n", serde_json::Value::Null).await.unwrap().as_str(), "0f");
}

#[tokio::test]
async fn network_that_differs_from_the_plan_is_removed_and_an_error() {
    let plan = NetworkRequest {
        name: "n".to_owned(),
        bridge: "b".to_owned(),
        subnet: Some("10.199.0.0/28".parse().unwrap()),
        internal: true,
        labels: std::collections::BTreeMap::new(),
    };
    let leaky = r#"{"name":"n","driver":"bridge","internal":false,"dns_enabled":true,"ipv6_enabled":false,
        "subnets":[{"subnet":"10.199.0.0/28","gateway":"10.199.0.1"}]}"#;
    let removed = json("200 OK", r#"[{"Name":"n","Err":null}]"#);
    let script = Script::new([PING.to_owned(), json("200 OK", leaky), removed]);
    let error = script.connect().await.unwrap().create_network(&plan).await.unwrap_err();
    assert!(chain(&error).contains("internal, dns, gateway"), "{}", chain(&error));
}

#[tokio::test]
async fn removing_a_network_reads_the_answer_and_its_status() {
    for (answer, good) in [
        (json("200 OK", r#"[{"Name":"n","Err":null}]"#), true),
        (json("404 Not Found", r#"{"message":"network not found"}"#), true),
        (json("200 OK", r#"[{"Name":"n","Err":"in use"}]"#), false),
        (json("200 OK", "OK"), false),
        (json("500 Internal Server Error", r#"{"message":"network is being used"}"#), false),
    ] {
        let (_script, engine) = Script::engine_then(answer.clone()).await;
        assert_eq!(engine.remove_network("n").await.is_ok(), good, "{answer:?}");
    }
}

const UPGRADED: &str = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";

fn frame(stream: u8, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&[stream, 0, 0, 0][..], &length, text.as_bytes()].concat()
}

async fn output_of(frames: &[Vec<u8>]) -> Vec<Result<Chunk, EngineError>> {
    let (_script, engine) = Script::engine_then([UPGRADED.as_bytes(), &frames.concat()].concat()).await;
    engine.attach_output("0f").await.unwrap().collect().await
}

#[tokio::test]
async fn output_is_split_by_stream_and_ends_with_the_connection() {
    let chunks = output_of(&[frame(1, "out"), frame(2, "err"), frame(1, "")]).await;
    let chunks: Vec<Chunk> = chunks.into_iter().map(Result::unwrap).collect();
    let expected = [Chunk::Stdout("out".into()), Chunk::Stderr("err".into()), Chunk::Stdout(Bytes::new())];
    assert_eq!(chunks, expected);
}

#[tokio::test]
async fn unframed_or_truncated_output_is_an_error_and_the_end() {
    for frames in [
        vec![frame(1, "ok"), b"no frame at all\n".to_vec()],
        vec![frame(1, "ok"), frame(0, "stdin?")],
        vec![frame(1, "ok"), frame(1, "half of it")[..10].to_vec()],
        vec![frame(1, "ok"), vec![1, 0, 0]],
    ] {
        let chunks = output_of(&frames).await;
        assert!(matches!(chunks.as_slice(), [Ok(Chunk::Stdout(_)), Err(_)]), "{frames:?}: {chunks:?}");
    }
}

#[tokio::test]
async fn reset_of_the_input_connection_loses_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("engine.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let (written, may_close) = tokio::sync::oneshot::channel();
    let served = tokio::spawn(async move {
        let (mut ping, _) = listener.accept().await.unwrap();
        read_request(&mut ping).await;
        ping.write_all(PING.as_bytes()).await.unwrap();
        let mut asked = Vec::new();
        let mut streams = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_request(&mut stream).await;
            asked.push(["stdin=true", "stdout=true", "stderr=true"].map(|option| request.contains(option)));
            stream.write_all(UPGRADED.as_bytes()).await.unwrap();
            streams.push(stream);
        }
        may_close.await.unwrap();
        // Closed with input unread: the other end's connection is reset.
        drop(streams.pop());
        streams.pop().unwrap().write_all(&frame(1, "out")).await.unwrap();
        asked
    });
    let engine = Engine::connect(&socket).await.unwrap();
    let mut output = engine.attach_output("0f").await.unwrap();
    let mut stdin = engine.attach_stdin("0f").await.unwrap();
    stdin.write_all(b"prompt").await.unwrap();
    stdin.flush().await.unwrap();
    written.send(()).unwrap();
    assert!(matches!(output.next().await, Some(Ok(Chunk::Stdout(_)))));
    assert!(output.next().await.is_none());
    assert_eq!(served.await.unwrap(), [[false, true, true], [true, false, false]]);
}

#[tokio::test]
async fn build_that_ends_without_an_image_is_an_error() {
    let request = BuildRequest::new("localhost/x:1", Bytes::new(), std::collections::BTreeMap::new());
    let id = "0f".repeat(32);
    for (body, good) in [
        (format!("{{\"stream\":\"STEP 1\\n\"}}\n{{\"aux\":{{\"ID\":\"sha256:{id}\"}}}}\n"), true),
        ("{\"stream\":\"STEP 1\\n\"}\n".to_owned(), false),
        ("{\"aux\":{\"ID\":\"latest\"}}\n".to_owned(), false),
        (
            format!(
                "{{\"aux\":{{\"ID\":\"sha256:{id}\"}}}}\n{{\"errorDetail\":{{\"message\":\"exit status 9\"}}}}\n"
            ),
            false,
        ),
        ("no json\n".to_owned(), false),
    ] {
        let (_script, engine) = Script::engine_then(json("200 OK", &body)).await;
        let built = engine.build(request.clone(), &mut |_: &str| {}).await;
        assert_eq!(built.ok(), good.then(|| id.clone()), "{body}");
    }
}

#[tokio::test]
async fn timeless_build_alone_has_its_id_in_the_last_line() {
    let id = "0f".repeat(32);
    let body = format!("{{\"stream\":\"COMMIT\\n\"}}\n{{\"stream\":\"{id}\\n\"}}\n");
    for (timeless, expected) in [(true, Some(&id)), (false, None)] {
        let (_script, engine) = Script::engine_then(json("200 OK", &body)).await;
        let request = BuildRequest::new("localhost/x:1", Bytes::new(), std::collections::BTreeMap::new());
        let request = BuildRequest { timeless, ..request };
        let built = engine.build(request, &mut |_: &str| {}).await;
        assert_eq!(built.ok().as_ref(), expected);
    }
}

#[tokio::test]
async fn image_is_looked_up_by_its_id_only_once() {
    let id = "0f".repeat(32);
    let body = format!(r#"{{"Id":"sha256:{id}","Created":"2026-01-02T03:04:05Z","Config":{{"User":"7"}}}}"#);
    let (_script, engine) = Script::engine_then(json("200 OK", &body)).await;
    let image = engine.image("localhost/x:1").await.unwrap().unwrap();
    assert_eq!(image.user, "7");
    assert_eq!(engine.clone().image_with_id(&id).await.unwrap().unwrap(), image);
    assert!(engine.image_with_id(&"0e".repeat(32)).await.is_err(), "the script has no second answer");
}

#[tokio::test]
async fn missing_object_is_none_and_its_removal_succeeds() {
    let missing = || json("404 Not Found", r#"{"message":"no such object"}"#);
    for call in 0..5 {
        let (_script, engine) = Script::engine_then(missing()).await;
        match call {
            0 => assert!(engine.image("localhost/x:1").await.unwrap().is_none()),
            1 => assert!(engine.download("0f", "/etc/x").await.unwrap().is_none()),
            2 => engine.remove_container("0f").await.unwrap(),
            3 => engine.remove_image("localhost/x:1").await.unwrap(),
            _ => assert!(!engine.network_exists("n").await.unwrap()),
        }
    }
}

#[tokio::test]
async fn container_in_a_state_of_podman_only_is_listed() {
    let body = r#"[{"Id":"0f","Names":["a"],"Labels":{"x":"y"},"State":"initialized"},{"Id":"0e","Names":[],"Labels":null,"State":""}]"#;
    let (_script, engine) = Script::engine_then(json("200 OK", body)).await;
    let found = engine.list_containers(&["x=y".to_owned()]).await.unwrap();
    assert_eq!(
        found.iter().map(|found| (found.name.as_str(), found.state.as_str())).collect::<Vec<_>>(),
        [("a", "initialized"), ("0e", "")]
    );
    for body in ["[{}]", r#"[{"Id":"0f"}]"#, "{}", ""] {
        let (_script, engine) = Script::engine_then(json("200 OK", body)).await;
        assert!(engine.list_containers(&[]).await.is_err(), "{body}");
    }
}
