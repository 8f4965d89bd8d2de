//! A gateway for many concurrent conversations with Claude Code over HTTP, each in a task of its
//! own.
//!
//! ```text
//! ANTHROPIC_API_KEY=… cargo run -p sandbox --example gateway -- LISTEN STATE_DIR PROXY_DIR IMAGE CLAUDE [DNS ROOTS NETWORK]
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
//! DNS, ROOTS and NETWORK are for a private network: a name server, a file of certificates, and
//! addresses that are not public. There is no authentication: everyone who reaches LISTEN can use
//! it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allowlist::Allowlist;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use futures_util::StreamExt as _;
use sandbox::credentials::{MaskedSecret, Preset, SecretValue, prepare_secrets};
use sandbox::{
    ContainerEnv, Execution, ExecutionResult, ImageSource, ImageTag, Network, NetworkSandboxConfig, Prompt,
    ResourceLimits, Sandbox, SandboxConfig, Task, TaskSpec,
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, state_dir, proxy_dir, image, claude, network @ ..] = &arguments[..] else {
        return Err("write LISTEN STATE_DIR PROXY_DIR IMAGE CLAUDE".into());
    };
    let mut config = SandboxConfig::discover(state_dir)?;
    "gateway".clone_into(&mut config.prefix);
    config.proxy_dir = Some(proxy_dir.into());
    if let [dns, roots, addresses] = network {
        config.upstream.dns = Some(dns.parse()?);
        config.upstream.extra_roots_pem = std::fs::read_to_string(roots)?;
        config.upstream.allow_addresses = vec![addresses.parse()?];
    }
    let key = std::env::var_os("ANTHROPIC_API_KEY").ok_or("ANTHROPIC_API_KEY is not set")?;
    let key = key.into_string().map_err(|_| "ANTHROPIC_API_KEY is not valid UTF-8")?;

    let mut terminated = signal(SignalKind::terminate())?;
    let sandbox = Sandbox::start(config).await?;
    let image = sandbox.ensure_image(&ImageSource::existing(image)).await?;
    let gateway = Arc::new(Gateway {
        sandbox: sandbox.clone(),
        image,
        claude: claude.into(),
        dir: PathBuf::from(state_dir).join("conversations"),
        key,
        conversations: Mutex::default(),
    });
    let listener = TcpListener::bind(listen).await?;
    writeln!(std::io::stdout(), "listening on {}", listener.local_addr()?)?;
    let stopped = async move {
        terminated.recv().await;
    };
    axum::serve(listener, router(gateway)).with_graceful_shutdown(stopped).await?;
    // Stops running executions, and leaves nothing on the engine.
    sandbox.shutdown().await?;
    Ok(())
}

struct Gateway {
    sandbox: Sandbox,
    image: ImageTag,
    claude: PathBuf,
    dir: PathBuf,
    key: String,
    conversations: Mutex<HashMap<String, Conversation>>,
}

#[derive(Clone)]
struct Conversation {
    task: Task,
    progress: Arc<Mutex<Progress>>,
}

#[derive(Clone, Default, Serialize)]
struct Progress {
    running: bool,
    events: usize,
    result: Option<ExecutionResult>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewConversation {
    allowlist: String,
    timeout_s: u64,
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
    let policy = Allowlist::from_yaml(&new.allowlist, "allowlist").map_err(Failure::bad_request)?;
    // The container gets a surrogate; its proxy puts the key into requests to the API.
    let preset: Preset = "anthropic".parse().map_err(Failure::bad_request)?;
    let key = SecretValue::new(gateway.key.clone());
    let masked = [MaskedSecret::new("ANTHROPIC_API_KEY", key, preset.injection())];
    let secrets = prepare_secrets(&masked, &[]).map_err(Failure::bad_request)?;
    let env = ContainerEnv::default().merge(secrets.env_vars());
    let network = NetworkSandboxConfig::new(policy).replacements(secrets.into_replacements());
    let dir = gateway.dir.join(&id);
    let spec = TaskSpec::new(&id, gateway.image.clone(), dir.join("session"))
        .claude_binary(&gateway.claude)
        .env(env)
        .network(Network::Sandboxed(network))
        .network_log_dir(dir.join("log"))
        .limits(ResourceLimits::default().timeout(Duration::from_secs(new.timeout_s)));
    let conversation = Conversation { task: gateway.sandbox.create_task(spec)?, progress: Arc::default() };
    match lock(&gateway.conversations).entry(id) {
        // The execution of an existing conversation would be orphaned.
        Entry::Occupied(_) => {
            Err(Failure::new(StatusCode::CONFLICT, "a conversation with this id already exists"))
        }
        Entry::Vacant(free) => {
            free.insert(conversation);
            Ok(StatusCode::CREATED)
        }
    }
}

async fn ask(State(gateway): Shared, Path(id): Path<String>, text: String) -> Result<StatusCode, Failure> {
    let Conversation { task, progress } = gateway.conversation(&id)?;
    let session = task.session_store().session_id_for_resume();
    let prompt = Prompt::new(text).resume(session.map_err(sandbox::SandboxError::from)?);
    {
        let mut progress = lock(&progress);
        if progress.running {
            return Err(Failure::new(StatusCode::CONFLICT, "the conversation is answering; wait or stop it"));
        }
        *progress = Progress { running: true, ..Progress::default() };
    }
    tokio::spawn(follow(task.execute(prompt), progress));
    Ok(StatusCode::ACCEPTED)
}

/// Runs concurrently with all other conversations.
async fn follow(
    mut execution: Execution<claude_output::StreamEvent, ExecutionResult>,
    progress: Arc<Mutex<Progress>>,
) {
    while execution.next().await.is_some() {
        lock(&progress).events += 1;
    }
    let result = execution.await;
    let mut progress = lock(&progress);
    progress.running = false;
    match result {
        Ok(result) => progress.result = Some(result),
        Err(error) => progress.error = Some(error.to_string()),
    }
}

async fn progress(State(gateway): Shared, Path(id): Path<String>) -> Result<Json<Progress>, Failure> {
    let conversation = gateway.conversation(&id)?;
    let progress = lock(&conversation.progress).clone();
    Ok(Json(progress))
}

async fn stop(State(gateway): Shared, Path(id): Path<String>) -> Result<Json<bool>, Failure> {
    Ok(Json(gateway.conversation(&id)?.task.stop().await))
}

async fn set_policy(State(gateway): Shared, Path(id): Path<String>, yaml: String) -> Result<(), Failure> {
    let policy = Allowlist::from_yaml(&yaml, "allowlist").map_err(Failure::bad_request)?;
    Ok(gateway.conversation(&id)?.task.set_policy(policy).await?)
}

async fn quarantine(State(gateway): Shared, Path(id): Path<String>) -> Result<(), Failure> {
    Ok(gateway.conversation(&id)?.task.quarantine().await?)
}

async fn log(State(gateway): Shared, Path(id): Path<String>) -> Result<String, Failure> {
    let log = gateway.conversation(&id)?.task.network_log();
    let text = log.map(|log| log.read_raw()).transpose();
    Ok(text.map_err(Failure::bad_request)?.unwrap_or_default())
}

impl Gateway {
    fn conversation(&self, id: &str) -> Result<Conversation, Failure> {
        let known = lock(&self.conversations).get(id).cloned();
        known.ok_or_else(|| Failure::new(StatusCode::NOT_FOUND, "no conversation with this id exists"))
    }
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

    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn bad_request(error: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl From<sandbox::SandboxError> for Failure {
    fn from(error: sandbox::SandboxError) -> Self {
        Self::new(StatusCode::CONFLICT, error.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, self.text).into_response()
    }
}

/// Code that holds one of these locks cannot panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
