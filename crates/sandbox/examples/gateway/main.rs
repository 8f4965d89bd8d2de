//! A gateway for many concurrent conversations with Claude Code over HTTP, each message in a
//! container of its own. Any number of these processes share the work: messages wait in `PostgreSQL`,
//! and any process answers them.
//!
//! ```text
//! ANTHROPIC_API_KEY=… DATABASE_URL=postgres://… cargo run -p sandbox --example gateway -- \
//!     LISTEN PREFIX SHARED_DIR STATE_DIR PROXY_DIR IMAGE CLAUDE [DNS ROOTS NETWORK]
//!
//! PUT  /conversations/ID             {"allowlist": "domains: [api.anthropic.com]", "timeout_s": 600} creates it; 409 if it exists
//! POST /conversations/ID/prompts     text: asks Claude Code in the background, in the session of the conversation
//! GET  /conversations/ID             {"running": true, "events": 7, "result": null, "error": null}
//! POST /conversations/ID/stop        returns when it has ended
//! PUT  /conversations/ID/policy      an allowlist, in force from the next request on
//! POST /conversations/ID/quarantine  cuts it off
//! GET  /conversations/ID/log         the network log
//! ```
//!
//! Each process serves all conversations. They share the database and `SHARED_DIR`, which may be on a
//! network. `STATE_DIR` is on this machine, and its processes may share it. `PREFIX` is that of the
//! objects on the engine.
//!
//! The answer to a message is stored exactly once, but Claude Code may run more than once for it:
//! when a worker dies, stalls or is drained, another one starts again with the session of the
//! message before. What the first run did to the outside, through its proxy, is not undone, and if its
//! worker is only stalled, it may continue for a while, out of reach of `stop`, `policy` and
//! `quarantine`.
//!
//! After SIGTERM a process claims nothing more, gives running executions ten seconds, then stops
//! them and gives their messages back. When it has lost the database, it stops them at once and ends
//! with an error; start it again.
//!
//! Left out: TLS to the database, a limit of attempts for a message, the removal of conversations, a
//! sync of the sessions' folders before their answers are stored, and a retry after an error of the
//! sandbox, which is the answer: also if the session is too large to be copied for the next message.
//!
//! DNS, ROOTS and NETWORK are for a private network: a name server, a file of certificates, and
//! addresses that are not public. There is no authentication: everyone who reaches LISTEN can use
//! it.

mod folders;
mod queue;
mod worker;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use allowlist::Allowlist;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use sandbox::network::NetworkLog;
use sandbox::{ImageSource, Sandbox, SandboxConfig};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

use folders::Folders;
use queue::{Control, Controlled, Error, Queue};
use worker::{DRAIN, Worker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, prefix, shared_dir, state_dir, proxy_dir, image, claude, network @ ..] = &arguments[..]
    else {
        return Err("write LISTEN PREFIX SHARED_DIR STATE_DIR PROXY_DIR IMAGE CLAUDE".into());
    };
    let mut config = SandboxConfig::discover(state_dir)?;
    prefix.clone_into(&mut config.prefix);
    config.proxy_dir = Some(proxy_dir.into());
    if let [dns, roots, addresses] = network {
        config.upstream.dns = Some(dns.parse()?);
        config.upstream.extra_roots_pem = std::fs::read_to_string(roots)?;
        config.upstream.allow_addresses = vec![addresses.parse()?];
    }
    let key = variable("ANTHROPIC_API_KEY")?;

    let mut terminated = signal(SignalKind::terminate())?;
    let queue = Arc::new(Queue::connect(&variable("DATABASE_URL")?).await?);
    // Removes what killed processes left on the engine.
    let sandbox = Sandbox::start(config).await?;
    let image = sandbox.ensure_image(&ImageSource::existing(image)).await?;
    let gateway = Arc::new(Gateway { queue: Arc::clone(&queue), dir: shared_dir.into() });
    let worker = Arc::new(Worker {
        queue,
        sandbox: sandbox.clone(),
        image,
        claude: claude.into(),
        dir: shared_dir.into(),
        key,
    });
    let listener = TcpListener::bind(listen).await?;
    writeln!(std::io::stdout(), "listening on {}", listener.local_addr()?)?;

    let (drain, drained) = watch::channel(false);
    let mut working = tokio::spawn(worker.work(drained.clone()));
    let mut stopped = drained;
    let stopped = async move {
        let _ = stopped.wait_for(|drain| *drain).await;
    };
    let serving = axum::serve(listener, router(gateway)).with_graceful_shutdown(stopped);
    let serving = tokio::spawn(serving.into_future());
    let lost = tokio::select! {
        _ = terminated.recv() => None,
        ended = &mut working => Some(ended),
    };
    drain.send_replace(true);
    let result = match lost {
        Some(ended) => ended,
        None => working.await,
    };
    let _ = timeout(DRAIN, serving).await;
    // Stops running executions, and leaves nothing on the engine.
    sandbox.shutdown().await?;
    result?
}

fn variable(name: &str) -> Result<String, Error> {
    let value = std::env::var_os(name).ok_or_else(|| format!("{name} is not set"))?;
    value.into_string().map_err(|_| format!("{name} is not valid UTF-8").into())
}

struct Gateway {
    queue: Arc<Queue>,
    dir: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewConversation {
    allowlist: String,
    timeout_s: u32,
}

type Shared = State<Arc<Gateway>>;

fn router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route("/conversations/{id}", put(create).get(progress))
        .route("/conversations/{id}/prompts", post(ask))
        .route("/conversations/{id}/stop", post(stop))
        .route("/conversations/{id}/policy", put(set_policy))
        .route("/conversations/{id}/quarantine", post(quarantine))
        .route("/conversations/{id}/log", get(log))
        .with_state(gateway)
}

async fn create(
    State(gateway): Shared,
    Path(id): Path<String>,
    Json(new): Json<NewConversation>,
) -> Result<StatusCode, Failure> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if id.is_empty() || id.len() > 40 || !id.bytes().all(is_plain) {
        return Err(Failure::new(StatusCode::BAD_REQUEST, "use up to 40 small letters and digits"));
    }
    parse(&new.allowlist)?;
    if gateway.queue.create(&id, &new.allowlist, new.timeout_s.into()).await? {
        Ok(StatusCode::CREATED)
    } else {
        Err(Failure::new(StatusCode::CONFLICT, "a conversation with this id already exists"))
    }
}

async fn ask(State(gateway): Shared, Path(id): Path<String>, text: String) -> Result<StatusCode, Failure> {
    without_nul(&text)?;
    gateway.find(&id).await?;
    if gateway.queue.ask(&id, &text).await? {
        Ok(StatusCode::ACCEPTED)
    } else {
        Err(Failure::new(StatusCode::CONFLICT, "the conversation is answering; wait or stop it"))
    }
}

async fn progress(State(gateway): Shared, Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    let newest = gateway.find(&id).await?;
    let answer = newest.answer.map(|answer| serde_json::from_str(&answer)).transpose()?;
    let mut progress = answer.unwrap_or_else(|| json!({"result": null, "error": null}));
    if let Some(fields) = progress.as_object_mut() {
        fields.insert("running".to_owned(), newest.running.into());
        fields.insert("events".to_owned(), newest.events.into());
    }
    Ok(Json(progress))
}

async fn stop(State(gateway): Shared, Path(id): Path<String>) -> Result<Json<bool>, Failure> {
    gateway.find(&id).await?;
    match gateway.queue.control(&id, Control::Stop).await? {
        Controlled::Idle => Ok(Json(false)),
        Controlled::Waiting => Err(Failure::waiting()),
        Controlled::Ended | Controlled::Applied | Controlled::Quarantined => Ok(Json(true)),
    }
}

async fn set_policy(State(gateway): Shared, Path(id): Path<String>, yaml: String) -> Result<(), Failure> {
    parse(&yaml)?;
    gateway.control(&id, Control::Policy(&yaml)).await
}

async fn quarantine(State(gateway): Shared, Path(id): Path<String>) -> Result<(), Failure> {
    gateway.control(&id, Control::Quarantine).await
}

async fn log(State(gateway): Shared, Path(id): Path<String>) -> Result<String, Failure> {
    gateway.find(&id).await?;
    let log = NetworkLog::new(Folders::new(&gateway.dir, &id).log());
    Ok(if log.exists() { log.read_raw()? } else { String::new() })
}

impl Gateway {
    async fn find(&self, id: &str) -> Result<queue::Newest, Failure> {
        let newest = self.queue.newest(id).await?;
        newest.ok_or_else(|| Failure::new(StatusCode::NOT_FOUND, "no conversation with this id exists"))
    }

    async fn control(&self, id: &str, control: Control<'_>) -> Result<(), Failure> {
        self.find(id).await?;
        let conflict = |text: &str| Err(Failure::new(StatusCode::CONFLICT, text));
        match self.queue.control(id, control).await? {
            Controlled::Applied => Ok(()),
            Controlled::Idle | Controlled::Ended => conflict("the conversation is not answering"),
            Controlled::Quarantined => conflict("the conversation is quarantined"),
            Controlled::Waiting => Err(Failure::waiting()),
        }
    }
}

fn parse(yaml: &str) -> Result<(), Failure> {
    without_nul(yaml)?;
    match Allowlist::from_yaml(yaml, "allowlist") {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(StatusCode::BAD_REQUEST, error.to_string())),
    }
}

/// `PostgreSQL`'s texts have none.
fn without_nul(text: &str) -> Result<(), Failure> {
    if text.contains('\0') {
        return Err(Failure::new(StatusCode::BAD_REQUEST, "the text has a NUL byte"));
    }
    Ok(())
}

/// The error for the client.
struct Failure {
    status: StatusCode,
    text: String,
}

impl Failure {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, text }
    }

    fn waiting() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "it is stored, but not in force yet")
    }
}

/// The operator sees the cause.
impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        worker::say(&error.into().to_string());
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway cannot do this now; try again later")
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, self.text).into_response()
    }
}
