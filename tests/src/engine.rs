//! Direct access to the engine, without the sandbox: controls weaken a setup with it, and tests
//! inspect one.

use std::path::PathBuf;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::setting::Setting;

/// Python functions: `without_filter()` removes the packet filter of its own network namespace, and
/// returns `removed` or the name of the error.
pub const WITHOUT_FILTER: &str = r"
import errno, socket, struct

def netlink(kind, flags, family, resource, attributes):
    return struct.pack('=IHHIIBBH', 20 + len(attributes), kind, flags, 1, 0, family, 0, socket.htons(resource)) + attributes

def without_filter():
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as kernel:
            name = struct.pack('=HH', 12, 1) + b'sandbox\0'
            kernel.send(netlink(0x10, 1, 0, 10, b'') + netlink(0xa02, 5, 1, 0, name) + netlink(0x11, 1, 0, 10, b''))
            return errno.errorcode.get(-struct.unpack_from('=i', kernel.recv(4096), 16)[0], 'removed')
    except OSError as error: return errno.errorcode[error.errno]
";

/// Calls the engine's own API; returns status and body.
///
/// # Panics
///
/// If the engine is not reachable.
pub async fn call(method: &str, path: &str, body: Option<&Value>) -> (u16, Bytes) {
    send(method, &format!("/v4.0.0/libpod{path}"), body).await
}

/// Calls the API in `target`: podman's own, or the Docker-compatible one.
///
/// # Panics
///
/// If the engine is not reachable.
pub async fn raw(method: &str, target: &str) -> (u16, Bytes) {
    send(method, target, None).await
}

/// Sends `file` to podman's own API; returns status and body of the answer.
///
/// # Panics
///
/// If the engine is not reachable.
pub async fn upload(method: &str, path: &str, file: impl Into<Bytes>) -> (u16, Bytes) {
    exchange(method, &format!("/v4.0.0/libpod{path}"), None, file.into()).await
}

async fn send(method: &str, target: &str, body: Option<&Value>) -> (u16, Bytes) {
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    exchange(method, target, Some("application/json"), body).await
}

async fn exchange(method: &str, target: &str, content_type: Option<&str>, body: Bytes) -> (u16, Bytes) {
    let socket: PathBuf = Setting::of_this_run().engine.trim_start_matches("unix://").into();
    let stream = UnixStream::connect(socket).await.expect("the engine's socket");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("the engine speaks HTTP");
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(target).header("host", "engine");
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    let request = request.body(Full::new(body)).expect("a good request");
    let response = sender.send_request(request).await.expect("the engine answers");
    let status = response.status().as_u16();
    (status, response.into_body().collect().await.expect("a whole answer").to_bytes())
}

/// Like [`call`], for calls that must succeed and return JSON.
///
/// # Panics
///
/// If the call fails.
pub async fn json(method: &str, path: &str, body: Option<&Value>) -> Value {
    let (status, bytes) = call(method, path, body).await;
    assert!((200..300).contains(&status), "{method} {path}: {status} {}", String::from_utf8_lossy(&bytes));
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Removes all containers of an instance. The start of another instance removes its networks.
pub async fn remove_containers(instance: &str) {
    let filter = format!("filters=%7B%22label%22%3A%5B%22sandbox.instance%3D{instance}%22%5D%7D");
    let list = json("GET", &format!("/containers/json?all=true&{filter}"), None).await;
    for name in names(&list, "Names") {
        call("DELETE", &format!("/containers/{name}?force=true&timeout=0"), None).await;
    }
}

/// The names of all containers whose label `sandbox.owner` is `prefix`.
pub async fn containers(prefix: &str) -> Vec<String> {
    let path =
        format!("/containers/json?all=true&filters=%7B%22label%22%3A%5B%22sandbox.owner%3D{prefix}%22%5D%7D");
    names(&json("GET", &path, None).await, "Names")
}

/// The names of all networks whose label `sandbox.owner` is `prefix`, except for the egress network
/// that all instances share, which stays; `cargo xtask e2e` removes it at the end.
pub async fn networks(prefix: &str) -> Vec<String> {
    networks_with(prefix, |role| role != Some("egress")).await
}

/// The names of the egress networks of `prefix` that proxies share: one, or none.
pub async fn shared_networks(prefix: &str) -> Vec<String> {
    networks_with(prefix, |role| role == Some("egress")).await
}

async fn networks_with(prefix: &str, role: impl Fn(Option<&str>) -> bool) -> Vec<String> {
    let path = format!("/networks/json?filters=%7B%22label%22%3A%5B%22sandbox.owner%3D{prefix}%22%5D%7D");
    let mut list = json("GET", &path, None).await;
    if let Some(networks) = list.as_array_mut() {
        networks.retain(|network| role(network.pointer("/labels/sandbox.role").and_then(Value::as_str)));
    }
    names(&list, "name")
}

/// The process id in `field` of the container state of the only `role` (`task`, `proxy`) under
/// `prefix`: `Pid` is the first process of the container, `ConmonPid` the engine's monitor.
///
/// # Panics
///
/// If there is no such container or process.
pub async fn process(prefix: &str, role: &str, field: &str) -> u32 {
    let names = containers(prefix).await;
    let name = names.iter().find(|name| name.contains(&format!("-{role}-"))).expect("a container");
    let facts = json("GET", &format!("/containers/{name}/json"), None).await;
    let pid = facts.pointer(&format!("/State/{field}")).and_then(Value::as_u64);
    pid.and_then(|pid| pid.try_into().ok()).filter(|pid| *pid > 0).expect("a process")
}

fn names(list: &Value, key: &str) -> Vec<String> {
    let name = |entry: &Value| match entry.get(key) {
        Some(Value::Array(names)) => names.first().and_then(Value::as_str).map(str::to_owned),
        Some(Value::String(name)) => Some(name.clone()),
        _ => None,
    };
    list.as_array().map(|entries| entries.iter().filter_map(name).collect()).unwrap_or_default()
}

/// Runs `script` in a container that the Docker-compatible API creates with `host` as its
/// `HostConfig`, and returns its output: what podman does with a field that nothing verifies.
///
/// # Panics
///
/// If the container fails to run.
pub async fn unverified(script: &str, host: &Value) -> String {
    let mut body = json!({
        "Image": Setting::of_this_run().clients_image,
        "Entrypoint": [],
        "Cmd": ["bash", "-c", script],
        "HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": "k8s-file"}},
    });
    merge(&mut body, &json!({"HostConfig": host}));
    let (status, answer) = send("POST", "/v1.41/containers/create", Some(&body)).await;
    assert_eq!(status, 201, "{}", String::from_utf8_lossy(&answer));
    log_text(&finish(&serde_json::from_slice(&answer).expect("JSON")).await)
}

/// Merges `more` into `whole`, object by object.
pub fn merge(whole: &mut Value, more: &Value) {
    match (whole, more) {
        (Value::Object(whole), Value::Object(more)) => {
            for (key, value) in more {
                merge(whole.entry(key).or_insert(Value::Null), value);
            }
        }
        (whole, more) => *whole = more.clone(),
    }
}

/// Runs a container that podman's own API creates from `spec`, and returns its output.
///
/// # Panics
///
/// If the container fails to run.
pub async fn printed(spec: &Value) -> String {
    let mut spec = spec.clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("log_configuration".to_owned(), json!({"driver": "k8s-file"}));
    }
    let created = json("POST", "/containers/create", Some(&spec)).await;
    log_text(&finish(&created).await)
}

/// The output so far of a container whose log driver is `k8s-file`.
pub async fn log(container: &str) -> String {
    log_text(&log_frames(container).await)
}

fn log_text(log: &[u8]) -> String {
    // Each frame of the log has a header of eight bytes.
    let mut text = String::new();
    let mut rest = log;
    while let Some((header, tail)) = rest.split_first_chunk::<8>() {
        let [.., a, b, c, d] = *header;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).expect("a length");
        let (frame, tail) = tail.split_at_checked(length).unwrap_or((tail, &[]));
        text.push_str(&String::from_utf8_lossy(frame));
        rest = tail;
    }
    text
}

/// Runs the probe in a container without the sandbox's containment, for controls.
///
/// `overrides` replaces fields of the engine's container specification.
///
/// # Panics
///
/// If the container fails to run.
pub async fn weakened(arguments: &[&str], overrides: &Value) -> String {
    let setting = Setting::of_this_run();
    let command: Vec<&str> = std::iter::once("/probe").chain(arguments.iter().copied()).collect();
    let mut spec = json!({
        "image": setting.clients_image,
        "command": command,
        "entrypoint": [],
        "log_configuration": {"driver": "k8s-file"},
        "mounts": [{"type": "bind", "source": setting.probe, "destination": "/probe", "options": ["ro"]}],
    });
    if let (Some(spec), Some(overrides)) = (spec.as_object_mut(), overrides.as_object()) {
        spec.extend(overrides.clone());
    }
    let created = json("POST", "/containers/create", Some(&spec)).await;
    let log = finish(&created).await;
    // Each frame of the log has a header of eight bytes, none of which is `{`.
    let text = String::from_utf8_lossy(&log).into_owned();
    text.find('{').and_then(|start| text.get(start..)).map_or_else(|| text.clone(), str::to_owned)
}

/// Runs a created container until it ends, removes it, and returns its log.
async fn finish(created: &Value) -> Bytes {
    let id = id_of(created);
    call("POST", &format!("/containers/{id}/start"), None).await;
    let log = log_at_end(&id).await;
    remove(&id).await;
    log
}

fn id_of(created: &Value) -> String {
    created["Id"].as_str().expect("an id").to_owned()
}

/// Waits for a started container to end, and returns its log.
async fn log_at_end(id: &str) -> Bytes {
    let wait = format!("/containers/{id}/wait?condition=exited&condition=stopped");
    call("POST", &wait, None).await;
    log_frames(id).await
}

async fn log_frames(container: &str) -> Bytes {
    let logs = format!("/containers/{container}/logs?stdout=true&stderr=true");
    call("GET", &logs, None).await.1
}

async fn remove(id: &str) {
    call("DELETE", &format!("/containers/{id}?force=true&timeout=0"), None).await;
}
