//! The rendered pods under `podman kube play`, which has neither network policies nor a cluster: the
//! task's pod is on an internal network with its proxy's, and on no other.
//!
//! `podman kube play` opens no stdin. The proxy's image has a script in the place of the program, which
//! passes the start document to it as one who attaches to the pod would.

use std::fs;
use std::time::{Duration, Instant};

use e2e_tests::setting::Setting;
use e2e_tests::world::{ORIGIN, World};
use e2e_tests::{DEADLINE, assert_held, engine};
use serde_json::{Value, json};

use super::rendering::{ALLOWED, NAME, PROXY_ADDRESS, Rendering};

/// A host that is not in the policy.
const BLOCKED: &str = "kubernetes-blocked.test";
/// The name under which the origin is asked directly.
const DIRECT: &str = "kubernetes-direct.test";
/// The network of both pods.
const INSIDE: &str = "e2e-kube-inside";
/// The proxy's network with a way out.
const OUTSIDE: &str = "e2e-kube-outside";
const SUBNET: &str = "10.203.0.0/24";
const PROXY: &str = "e2e-kube-proxy-proxy";
const TASK: &str = "e2e-kube-pod-task";
/// The repository and the tag of the proxy's image.
const IMAGE: (&str, &str) = ("localhost/e2e-kube-proxy", "test");
/// A container from which the image is made.
const MAKER: &str = "e2e-kube-maker";

/// Removes everything of this test from the engine, even if it fails.
struct Remover;

impl Remover {
    async fn new() -> Self {
        // What a killed test has left.
        remove().await;
        Self
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        // In a thread: the runtime of the test is blocked until this returns.
        let removing = std::thread::spawn(|| {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(remove());
        });
        // An error here must not hide the failure of the test.
        let _ = removing.join();
    }
}

async fn remove() {
    let (repository, tag) = IMAGE;
    let mut paths = ["pod", "proxy"].map(|pod| format!("/pods/{NAME}-{pod}?force=true&timeout=0")).to_vec();
    paths.push(format!("/containers/{MAKER}?force=true&timeout=0"));
    paths.extend(["trust", "workspace", "tmp"].map(|volume| format!("/volumes/{NAME}-{volume}?force=true")));
    paths.extend([INSIDE, OUTSIDE].map(|network| format!("/networks/{network}?force=true")));
    paths.push(format!("/images/{repository}:{tag}?force=true"));
    for path in paths {
        engine::call("DELETE", &path, None).await;
    }
}

async fn make_networks() {
    let inside = json!({"name": INSIDE, "internal": true, "subnets": [{"subnet": SUBNET}]});
    for mut network in [inside, json!({"name": OUTSIDE})] {
        engine::merge(&mut network, &json!({"driver": "bridge", "dns_enabled": false}));
        engine::json("POST", "/networks/create", Some(&network)).await;
    }
}

/// Makes the image of a proxy that gets `document`.
async fn make_image(document: &[u8]) {
    const SCRIPT: &str = "#!/bin/bash\nexec /proxy \"$@\" < <(cat /start.json; exec sleep infinity)\n";
    let setting = Setting::of_this_run();
    let maker = json!({"name": MAKER, "image": setting.image, "command": ["true"]});
    engine::json("POST", "/containers/create", Some(&maker)).await;
    let program = fs::read(setting.proxy_dir.join("sandbox-proxy")).expect("the proxy's program");
    let line = [document.trim_ascii_end(), b"\n"].concat();
    let files = archive(&[
        ("sandbox-proxy", 0o755, SCRIPT.as_bytes()),
        ("proxy", 0o755, &program[..]),
        ("start.json", 0o444, &line[..]),
    ]);
    let (status, answer) = engine::upload("PUT", &format!("/containers/{MAKER}/archive?path=/"), files).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    let (repository, tag) = IMAGE;
    let commit = format!("/commit?container={MAKER}&repo={repository}&tag={tag}");
    engine::json("POST", &commit, None).await;
}

/// A tar archive of files with their paths and modes.
fn archive(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, mode, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(*mode);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, *content).expect("memory");
    }
    archive.into_inner().expect("memory")
}

/// `podman kube play`, on networks and with flags in `parameters`.
async fn play(manifests: &str, parameters: &str) {
    let path = format!("/play/kube?logDriver=k8s-file&{parameters}");
    let (status, answer) = engine::upload("POST", &path, manifests.to_owned()).await;
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(status, 200, "{text}\n{manifests}");
    let report: Value = serde_json::from_slice(&answer).expect("JSON");
    let pods = report.get("Pods").and_then(Value::as_array).expect("pods");
    assert!(
        !pods.is_empty() && pods.iter().all(|pod| pod.get("ContainerErrors").is_none_or(Value::is_null)),
        "{text}"
    );
}

async fn until_ready() {
    let began = Instant::now();
    loop {
        let facts = engine::json("GET", &format!("/containers/{PROXY}/json"), None).await;
        let log = engine::log(PROXY).await;
        if log.contains(r#""message":"ready""#) {
            return;
        }
        let is_running = facts.pointer("/State/Running") == Some(&Value::Bool(true));
        assert!(is_running && began.elapsed() < DEADLINE, "the proxy is not ready: {log}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Prints `what` and the status of a request; 000 is that of no answer. Without curl's message: the log
/// may have a part of it within the line.
fn curl(what: &str, arguments: &str) -> String {
    format!("curl -s --max-time 20 -o /dev/null -w '{what} %{{http_code}}\\n' {arguments}\n")
}

/// A request to the origin's address, which passes no proxy.
fn direct() -> String {
    curl("direct", &format!("-H 'Host: {DIRECT}' http://{ORIGIN}/"))
}

/// What the request to the origin's address gets from a container on the proxy's network.
async fn control_of_direct() -> String {
    let networks = json!({OUTSIDE: {}});
    let spec = json!({
        "image": Setting::of_this_run().image,
        "entrypoint": [],
        "command": ["bash", "-c", direct()],
        "netns": {"nsmode": "bridge"},
        "Networks": networks,
        "networks": networks,
    });
    engine::printed(&spec).await
}

#[tokio::test(flavor = "multi_thread")]
async fn task_pod_reaches_only_permitted_hosts_under_kube_play() {
    for host in [ALLOWED, BLOCKED, DIRECT] {
        // A second try of this test is in the same world.
        World::shared().forget(host);
    }
    let rendering = Rendering::new();
    let secret = &rendering.secret;
    let with_token = format!("-H \"Authorization: Bearer $TOKEN\" https://{ALLOWED}/");
    let script = [
        "env; echo \"token $TOKEN\"\n".to_owned(),
        curl("allowed", &with_token),
        curl("blocked", &format!("https://{BLOCKED}/")),
        direct(),
        "exit 7".to_owned(),
    ];
    let task = rendering.task(&[], &script.concat());
    let (repository, tag) = IMAGE;
    let proxy = rendering.proxy(&format!("{repository}:{tag}"));
    assert_held!(!task.manifests.contains(secret) && !proxy.contains(secret), "{}{proxy}", task.manifests);
    let _remover = Remover::new().await;
    make_image(&task.document).await;
    make_networks().await;
    play(&proxy, &format!("network={INSIDE}:ip={PROXY_ADDRESS}&network={OUTSIDE}")).await;
    until_ready().await;
    play(&task.manifests, &format!("network={INSIDE}&noHosts=true")).await;
    let wait = format!("/containers/{TASK}/wait?condition=exited&condition=stopped");
    let code = engine::json("POST", &wait, None).await;
    let (log, records) = (engine::log(TASK).await, engine::log(PROXY).await);

    for host in [BLOCKED, DIRECT] {
        assert_held!(World::shared().seen(host).is_empty(), "{host} was reached: {log}");
    }
    assert_held!(!log.contains(secret), "the task has the secret: {log}");
    for line in ["allowed 200", "blocked 403", "direct 000"] {
        assert!(log.lines().any(|printed| printed == line), "no {line} in {log}\n{records}");
    }
    assert_eq!(code, json!(7), "{log}");
    let surrogate = log.lines().find_map(|line| line.strip_prefix("token ")).expect("a line");
    assert!(surrogate.starts_with("ghp_") && surrogate.len() == secret.len(), "{surrogate}");
    let seen = format!("{:?}", World::shared().seen(ALLOWED));
    assert!(seen.contains(secret) && !seen.contains(surrogate), "{seen}");
    assert!(records.contains(ALLOWED) && records.contains(BLOCKED), "{records}");
    let control = control_of_direct().await;
    assert!(control.contains("direct 200"), "the control: a pod with a way out gets there: {control}");
    assert!(!World::shared().seen(DIRECT).is_empty());

    for manifests in [task.manifests, proxy] {
        let (status, answer) = engine::upload("DELETE", "/play/kube?force=true", manifests).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    }
    for pod in ["pod", "proxy"] {
        assert_eq!(engine::call("GET", &format!("/pods/{NAME}-{pod}/json"), None).await.0, 404);
    }
}
