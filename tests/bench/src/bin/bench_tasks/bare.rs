//! A container without a sandbox, through the engine's API: create, attach, start, wait, remove.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, UPGRADE};
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

/// The durations of one run.
pub(crate) struct BareRun {
    /// Until its exit code was known.
    pub(crate) exited: Duration,
    /// Until it was removed.
    pub(crate) removed: Duration,
}

/// An engine's socket.
pub(crate) struct BareEngine(PathBuf);

impl BareEngine {
    pub(crate) fn new(address: &str) -> Self {
        Self(address.trim_start_matches("unix://").into())
    }

    /// Runs `true` in a new container on the engine's default bridge.
    pub(crate) async fn run(&self, image: &str) -> Result<BareRun> {
        let begin = Instant::now();
        let id = self.create(image, "true").await?;
        let exited = self.run_created(&id).await.map(|()| begin.elapsed());
        let removed = self.remove(&id).await;
        let exited = exited?;
        removed?;
        Ok(BareRun { exited, removed: begin.elapsed() })
    }

    /// The durations of `true` in a running container, `rounds` times.
    pub(crate) async fn execs(&self, image: &str, rounds: u32) -> Result<Vec<Duration>> {
        let id = self.create(image, "cat").await?;
        let measured = async {
            self.call("POST", &format!("/containers/{id}/start"), None).await?;
            let mut durations = Vec::new();
            for _ in 0..rounds {
                let begin = Instant::now();
                self.exec(&id).await?;
                durations.push(begin.elapsed());
            }
            Ok(durations)
        };
        let measured = measured.await;
        self.remove(&id).await?;
        measured
    }

    async fn exec(&self, container: &str) -> Result<()> {
        let specification = json!({"Cmd": ["true"], "AttachStdout": true, "AttachStderr": true});
        let path = format!("/containers/{container}/exec");
        let created: Value = self.call("POST", &path, Some(&specification)).await?;
        let id = created.get("Id").and_then(Value::as_str).context("the engine named no exec session")?;
        self.call("POST", &format!("/exec/{id}/start"), Some(&json!({"Detach": false}))).await?;
        match self.call("GET", &format!("/exec/{id}/json"), None).await?.get("ExitCode") {
            Some(Value::Number(code)) if code.as_i64() == Some(0) => Ok(()),
            other => bail!("`true` ended with {other:?}"),
        }
    }

    async fn create(&self, image: &str, program: &str) -> Result<String> {
        let specification = json!({
            "image": image,
            "command": [program],
            "entrypoint": [],
            "stdin": true,
            "log_configuration": {"driver": "none"},
            "netns": {"nsmode": "bridge"},
        });
        let created: Value = self.call("POST", "/containers/create", Some(&specification)).await?;
        created.get("Id").and_then(Value::as_str).map(str::to_owned).context("the engine named no container")
    }

    async fn remove(&self, id: &str) -> Result<()> {
        self.call("DELETE", &format!("/containers/{id}?force=true&timeout=0"), None).await.map(drop)
    }

    async fn run_created(&self, id: &str) -> Result<()> {
        let attached = self
            .send(
                "POST",
                &format!("/containers/{id}/attach?stream=true&stdin=true&stdout=true&stderr=true"),
                None,
            )
            .await?;
        if attached.status() != StatusCode::SWITCHING_PROTOCOLS {
            bail!("the engine answered the attach with {}", attached.status());
        }
        let stream = hyper::upgrade::on(attached).await.context("the engine did not attach")?;
        self.call("POST", &format!("/containers/{id}/start"), None).await?;
        // At the end of the output the engine may reset the connection, which is not an error.
        let (mut output, mut nowhere) = (TokioIo::new(stream), tokio::io::sink());
        let reading = tokio::io::copy(&mut output, &mut nowhere);
        let wait = format!("/containers/{id}/wait?condition=exited&condition=stopped&interval=10ms");
        let (_, code) = tokio::join!(reading, self.call("POST", &wait, None));
        match code? {
            Value::Number(code) if code.as_i64() == Some(0) => Ok(()),
            other => bail!("`true` ended with {other}"),
        }
    }

    async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let response = self.send(method, path, body).await?;
        let status = response.status();
        let bytes =
            response.into_body().collect().await.with_context(|| format!("{method} {path}"))?.to_bytes();
        if !status.is_success() {
            bail!("{method} {path}: {status} {}", String::from_utf8_lossy(&bytes));
        }
        Ok(serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Response<Incoming>> {
        let context = || format!("{method} {path}");
        let stream = UnixStream::connect(&self.0).await.with_context(context)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.with_context(context)?;
        tokio::spawn(connection.with_upgrades());
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/v4.0.0/libpod{path}"))
            .header(HOST, "engine")
            .header(CONTENT_TYPE, "application/json");
        if path.contains("/attach") {
            request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "tcp");
        }
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = request.body(Full::new(body)).with_context(context)?;
        sender.send_request(request).await.with_context(context)
    }
}
