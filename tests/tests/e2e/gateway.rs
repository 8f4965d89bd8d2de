//! The example `gateway`: concurrent conversations in spawned tasks, each of which can be stopped
//! and quarantined.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::setting::Setting;
use e2e_tests::world::World;
use e2e_tests::{DEADLINE, engine};
use serde_json::{Value, json};
use tempfile::TempDir;

const KEY: &str = "sk-ant-api03-gateway-0123456789abcdefghij";
const ALLOWED: &str = "domains: [api.anthropic.com]";
/// Two requests per second, each with its line in the log.
const ASKING: &str =
    "scenario:tool-use\ncommand: while sleep 0.5; do curl -s --max-time 10 https://open.test/; done";

struct Gateway {
    process: Child,
    address: String,
    state: TempDir,
}

impl Gateway {
    fn start() -> Self {
        let (setting, world) = (Setting::of_this_run(), World::shared());
        let state = tempfile::tempdir().expect("a folder");
        let roots = state.path().join("roots.pem");
        std::fs::write(&roots, world.roots_pem()).expect("a file");
        let mut process = Command::new(setting.examples.join("gateway"))
            .env("CONTAINER_HOST", &setting.engine)
            .env("ANTHROPIC_API_KEY", KEY)
            .arg("127.0.0.1:0")
            .args([state.path(), &setting.proxy_dir])
            .arg(&setting.clients_image)
            .arg(&setting.claude)
            .arg(world.dns().to_string())
            .arg(roots)
            .arg("203.0.113.0/24")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example was built");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.trim_end().strip_prefix("listening on ");
        Self { address: address.expect("an address").to_owned(), process, state }
    }

    fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.address).expect("the gateway listens");
        connection.set_read_timeout(Some(DEADLINE)).expect("a time");
        let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
        write!(
            connection,
            "{method} /conversations/{path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("the gateway reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    fn create(&self, id: &str, timeout_s: u64) -> u16 {
        let new = json!({"allowlist": ALLOWED, "timeout_s": timeout_s}).to_string();
        self.call("PUT", id, &new).0
    }

    fn ask(&self, id: &str, timeout_s: u64, prompt: &str) {
        assert_eq!(self.create(id, timeout_s), 201);
        assert_eq!(self.call("POST", &format!("{id}/prompts"), prompt).0, 202);
    }

    fn progress(&self, id: &str) -> Value {
        let (status, body) = self.call("GET", id, "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn until(&self, id: &str, enough: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let progress = self.progress(id);
            if enough(&progress) {
                return progress;
            }
            assert!(Instant::now() < deadline, "{id}: {progress}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn log(&self, id: &str) -> String {
        let (status, log) = self.call("GET", &format!("{id}/log"), "");
        assert_eq!(status, 200, "{log}");
        log
    }

    /// Waits for `line` in the log after position `from`, and returns the end of the log.
    fn until_logged(&self, id: &str, from: usize, line: &str) -> usize {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let log = self.log(id);
            if log.get(from..).is_some_and(|new| new.contains(line)) {
                return log.len();
            }
            assert!(Instant::now() < deadline, "{id} has no {line}: {log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn outcome(&self, id: &str) -> Value {
        let ended = self.until(id, |progress| progress.get("running") == Some(&Value::Bool(false)));
        assert_eq!(ended.get("error"), Some(&Value::Null), "{ended}");
        ended.pointer("/result/outcome").cloned().unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_conversations_can_each_be_stopped_changed_and_quarantined() {
    let gateway = tokio::task::spawn_blocking(converse).await.expect("no panic");
    assert_eq!(engine::containers("gateway").await, Vec::<String>::new());
    assert_eq!(engine::networks("gateway").await, Vec::<String>::new());
    drop(gateway);
}

/// Checks in the log that a policy applies from the next request, and that nothing passes a
/// quarantine.
fn policy_and_quarantine_hold(gateway: &Gateway, id: &str) {
    let allowed = "allowed GET https://open.test/";
    let denied = gateway.until_logged(id, 0, "BLOCKED GET https://open.test/ -> 403 [reason: host]");
    let before = gateway.log(id);
    assert!(!before.contains(allowed), "{before}");
    let open = "domains: [api.anthropic.com, open.test]";
    assert_eq!(gateway.call("PUT", &format!("{id}/policy"), open).0, 200);
    gateway.until_logged(id, denied, allowed);
    assert_eq!(gateway.call("POST", &format!("{id}/quarantine"), "").0, 200);
    let cut = gateway.log(id).len();
    let (status, refused) = gateway.call("PUT", &format!("{id}/policy"), open);
    assert!(status == 409 && refused.contains("quarantined"), "{status} {refused}");
    let quarantined = "BLOCKED GET https://open.test/ -> 403 [reason: quarantine]";
    let first = gateway.until_logged(id, cut, quarantined);
    gateway.until_logged(id, first, quarantined);
    let after = gateway.log(id);
    assert!(after.get(first..).is_some_and(|new| !new.contains(allowed)), "{after}");
}

fn converse() -> Gateway {
    let mut gateway = Gateway::start();
    gateway.ask("answered", 300, "say hello");
    gateway.ask("late", 5, "scenario:hang");
    gateway.ask("stopped", 300, ASKING);
    for id in ["stopped", "answered"] {
        gateway.until(id, |progress| progress["events"].as_u64() > Some(0));
    }
    assert_eq!(gateway.call("POST", "stopped/prompts", "me too").0, 409);
    assert_eq!(gateway.create("stopped", 300), 409, "it is not replaced");
    policy_and_quarantine_hold(&gateway, "stopped");
    assert_eq!(gateway.call("POST", "stopped/stop", ""), (200, "true".to_owned()));
    for (id, outcome) in [("answered", "success"), ("late", "timeout"), ("stopped", "stopped")] {
        assert_eq!(gateway.outcome(id), outcome, "{id}");
    }
    let log = gateway.log("answered");
    let request = "allowed POST https://api.anthropic.com/v1/messages";
    assert!(log.contains(request) && log.contains("[masked: 1]"), "{log}");
    assert!(!log.contains(KEY), "{log}");
    let pid = rustix::process::Pid::from_child(&gateway.process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("our own child");
    assert!(gateway.process.wait().expect("our own child").success());
    assert!(gateway.state.path().join("conversations/answered/session/context.json").exists());
    gateway
}
