//! The example `gateway`: several processes answer messages from a queue in `PostgreSQL`, each
//! exactly once, whichever of them dies.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::setting::Setting;
use e2e_tests::world::World;
use e2e_tests::{DEADLINE, engine};
use rustix::process::{Pid, Signal, kill_process};
use sandbox::session::SessionMetadata;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::services::Server;

const KEY: &str = "sk-ant-api03-gateway-0123456789abcdefghij";
const ALLOWED: &str = "domains: [api.anthropic.com]";
/// Two requests per second, each with its line in the log.
const ASKING: &str =
    "scenario:tool-use\ncommand: while sleep 0.5; do curl -s --max-time 10 https://open.test/; done";

/// A database, and the folders that all processes share.
struct Deployment {
    prefix: &'static str,
    database: Server,
    folder: TempDir,
    claude: PathBuf,
}

impl Deployment {
    fn new(prefix: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("roots.pem"), World::shared().roots_pem()).expect("a file");
        let claude = Setting::of_this_run().claude.clone();
        Self { prefix, database: Server::postgres(), folder, claude }
    }

    /// Starts a process, and waits until it listens.
    fn start(&self) -> Gateway {
        let mut gateway = self.spawn("127.0.0.1:0".parse().expect("an address"));
        let mut line = String::new();
        let stdout = gateway.process.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.trim_end().strip_prefix("listening on ").expect("an address");
        gateway.address = address.parse().expect("an address");
        gateway
    }

    fn spawn(&self, address: SocketAddr) -> Gateway {
        let (setting, folder) = (Setting::of_this_run(), self.folder.path());
        let errors = std::fs::File::options().create(true).append(true).open(folder.join("errors"));
        let process = Command::new(setting.examples.join("gateway"))
            .env("CONTAINER_HOST", &setting.engine)
            .env("ANTHROPIC_API_KEY", KEY)
            .env("DATABASE_URL", self.url())
            .args([&address.to_string(), self.prefix])
            .args([&self.conversations(), &folder.join("state"), &setting.proxy_dir])
            .arg(&setting.clients_image)
            .arg(&self.claude)
            .arg(World::shared().dns().to_string())
            .arg(folder.join("roots.pem"))
            .arg("203.0.113.0/24")
            .stdout(Stdio::piped())
            .stderr(errors.expect("a file"))
            .spawn()
            .expect("the example was built");
        Gateway { process, address }
    }

    fn conversations(&self) -> PathBuf {
        self.folder.path().join("conversations")
    }

    /// What all processes reported.
    fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("errors")).expect("a file")
    }

    fn url(&self) -> String {
        format!("postgres://app@{}/postgres", self.database.address())
    }

    /// The rows of a statement's result, with columns that `|` separates.
    fn sql(&self, statement: &str) -> String {
        let mut psql = Command::new("psql");
        psql.args([&self.url(), "-v", "ON_ERROR_STOP=1", "-qAt", "-c", statement]);
        let output = psql.output().expect("psql");
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
    }

    /// Waits until the statement's result is `expected`.
    fn until_sql(&self, statement: &str, expected: &str) {
        until(|| {
            let result = self.sql(statement);
            if result == expected { Ok(()) } else { Err(format!("{statement}: {result}")) }
        });
    }

    async fn assert_nothing_left(&self) {
        assert_eq!(engine::containers(self.prefix).await, Vec::<String>::new());
        assert_eq!(engine::networks(self.prefix).await, Vec::<String>::new());
    }
}

/// One process.
struct Gateway {
    process: Child,
    address: SocketAddr,
}

impl Gateway {
    fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        call(self.address, method, path, body).expect("an answer")
    }

    fn create(&self, id: &str, timeout_s: u64) -> u16 {
        self.call("PUT", id, &new_conversation(timeout_s)).0
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

    /// Waits until the progress is `enough`.
    fn until(&self, id: &str, enough: impl Fn(&Value) -> bool) -> Value {
        until(|| {
            let progress = self.progress(id);
            if enough(&progress) { Ok(progress) } else { Err(format!("{id}: {progress}")) }
        })
    }

    fn until_it_runs(&self, id: &str) {
        self.until(id, |progress| progress["events"].as_u64() > Some(0));
    }

    fn log(&self, id: &str) -> String {
        let (status, log) = self.call("GET", &format!("{id}/log"), "");
        assert_eq!(status, 200, "{log}");
        log
    }

    /// Waits for `line` in the log after position `from`, and returns the end of the log.
    fn until_logged(&self, id: &str, from: usize, line: &str) -> usize {
        until(|| {
            let log = self.log(id);
            let is_there = log.get(from..).is_some_and(|new| new.contains(line));
            if is_there { Ok(log.len()) } else { Err(format!("{id} has no {line}: {log}")) }
        })
    }

    fn outcome(&self, id: &str) -> Value {
        let ended = self.until(id, |progress| progress["running"] == false);
        assert_eq!(ended.get("error"), Some(&Value::Null), "{ended}");
        ended.pointer("/result/outcome").cloned().unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("our own child");
    }

    /// Ends it with SIGTERM.
    fn drain(mut self) {
        self.signal(Signal::TERM);
        assert!(self.process.wait().expect("our own child").success());
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn new_conversation(timeout_s: u64) -> String {
    json!({"allowlist": ALLOWED, "timeout_s": timeout_s}).to_string()
}

fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(DEADLINE))?;
    let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
    write!(
        connection,
        "{method} /conversations/{path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}

/// Waits until `check` has a result; its error is the state so far.
pub(super) fn until<T>(check: impl Fn() -> Result<T, String>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match check() {
            Ok(found) => return found,
            Err(state) => assert!(Instant::now() < deadline, "{state}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs `test` beside the test's servers, and checks that it leaves nothing on the engine.
async fn run(prefix: &'static str, test: fn(&mut Deployment)) {
    let mut deployment = Deployment::new(prefix);
    World::shared();
    let deployment = tokio::task::spawn_blocking(move || {
        test(&mut deployment);
        deployment
    });
    deployment.await.expect("no panic").assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_conversations_can_each_be_stopped_changed_and_quarantined() {
    run("gateway-talk", converse).await;
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

fn converse(deployment: &mut Deployment) {
    let worker = deployment.start();
    worker.ask("answered", 300, "say hello");
    worker.ask("late", 5, "scenario:hang");
    worker.ask("stopped", 300, ASKING);
    worker.until_it_runs("stopped");
    // The conversations run in another process.
    let gateway = deployment.start();
    gateway.until_it_runs("answered");
    assert_eq!(gateway.call("POST", "stopped/prompts", "me too").0, 409);
    assert_eq!(gateway.create("stopped", 300), 409, "it is not replaced");
    assert_eq!(gateway.create("UP", 300), 400);
    assert_eq!(gateway.call("POST", "stopped/prompts", "a\0b").0, 400);
    assert_eq!(gateway.call("GET", "unknown", "").0, 404);
    policy_and_quarantine_hold(&gateway, "stopped");
    assert_eq!(gateway.call("POST", "stopped/stop", ""), (200, "true".to_owned()));
    assert_eq!(gateway.call("POST", "stopped/stop", ""), (200, "false".to_owned()));
    assert_eq!(gateway.call("POST", "stopped/quarantine", "").0, 409);
    for (id, outcome) in [("answered", "success"), ("late", "timeout"), ("stopped", "stopped")] {
        assert_eq!(gateway.outcome(id), outcome, "{id}");
    }
    let log = gateway.log("answered");
    let request = "allowed POST https://api.anthropic.com/v1/messages";
    assert!(log.contains(request) && log.contains("[masked: 1]"), "{log}");
    assert!(!log.contains(KEY), "{log}");
    assert_eq!(
        deployment.sql(&format!("SELECT count(*) FROM messages WHERE messages::text LIKE '%{KEY}%'")),
        "0"
    );
    // The first process ends: the second one continues the conversation.
    worker.drain();
    assert_eq!(gateway.call("POST", "answered/prompts", "again").0, 202);
    assert_eq!(gateway.outcome("answered"), "success");
    let answer = gateway.progress("answered");
    let text = r#"This is turn 2. You said: "say hello", then "again"."#;
    assert!(response_text(&answer) == text, "{answer}");
    gateway.drain();
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_was_thought_dead_cannot_store_its_answer() {
    run("gateway-late", wake_late).await;
}

fn wake_late(deployment: &mut Deployment) {
    let late = deployment.start();
    late.ask("one", 300, "scenario:tool-use\ncommand: sleep 10; echo done");
    late.until_it_runs("one");
    let epoch = deployment.sql("SELECT epoch FROM messages");
    late.signal(Signal::STOP);
    let other = deployment.start();
    assert_eq!(other.outcome("one"), "success");
    let rows = || deployment.sql("SELECT * FROM messages JOIN conversations ON true");
    let answered = rows();
    let session = deployment.sql("SELECT session FROM conversations");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    assert!(number(&session) > number(&epoch), "{session}");
    late.signal(Signal::CONT);
    let refused = format!("the answer of epoch {epoch} is not stored");
    until(|| {
        assert_eq!(rows(), answered, "the late worker changes nothing");
        let errors = deployment.errors();
        if errors.contains(&refused) { Ok(()) } else { Err(errors) }
    });
    late.drain();
    assert_eq!(rows(), answered);
    let conversation = deployment.conversations().join("one");
    assert_eq!(epochs(&conversation), [format!("epoch-{session}")]);
    assert_eq!(context(&conversation, &session).replies.len(), 1);
    other.drain();
}

#[tokio::test(flavor = "multi_thread")]
async fn drained_worker_gives_its_message_back_and_one_without_a_database_stops() {
    run("gateway-drain", drain).await;
}

fn drain(deployment: &mut Deployment) {
    let claims = |least: u32| format!("SELECT last_value >= {least} FROM epochs");
    let first = deployment.start();
    first.ask("one", 300, "scenario:hang");
    first.until_it_runs("one");
    let mut second = deployment.start();
    first.drain();
    deployment.until_sql(&claims(2), "t");
    second.until_it_runs("one");
    deployment.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%messages%' AND pid <> pg_backend_pid()");
    assert!(!second.process.wait().expect("our own child").success());
    tokio::runtime::Handle::current().block_on(deployment.assert_nothing_left());
    let third = deployment.start();
    deployment.until_sql(&claims(3), "t");
    assert_eq!(third.call("POST", "one/stop", ""), (200, "true".to_owned()));
    assert_eq!(third.outcome("one"), "stopped");
    third.drain();
}

const CONVERSATIONS: usize = 200;
const WORKERS: usize = 4;
/// Every so many conversations have a second message.
const LONGER: usize = 20;
/// Between two kills.
const CADENCE: Duration = Duration::from_secs(2);
const MOST_KILLS: u32 = 150;
/// An agent that starts sooner than Claude Code: its session is the list of all prompts, which it
/// sends to the API.
const AGENT: &str = r#"#!/bin/bash
read -r line
prompt=${line#*\"content\":\"}
echo "${prompt%%\"*}" >> "$CLAUDE_CONFIG_DIR/prompts"
echo '{"type":"system","subtype":"init","session_id":"a-b-c"}'
messages=$(sed 's/.*/{"role":"user","content":"&"}/' "$CLAUDE_CONFIG_DIR/prompts" | paste -sd,)
answer=$(curl -sS -H "x-api-key: $ANTHROPIC_API_KEY" -H "Content-Type: application/json" -d '{"messages":['"$messages"']}' https://api.anthropic.com/v1/messages)
text=$(sed 's/.*"text":"\(.*\)","type":"text".*/\1/' <<< "$answer")
echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$text"'","session_id":"a-b-c","num_turns":1,"duration_ms":1,"total_cost_usd":0}'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn workers_killed_at_random_answer_each_message_exactly_once() {
    run("gateway-kill", kill_at_random).await;
}

fn kill_at_random(deployment: &mut Deployment) {
    deployment.claude = deployment.folder.path().join("claude");
    std::fs::write(&deployment.claude, AGENT).expect("a script");
    std::fs::set_permissions(&deployment.claude, std::fs::Permissions::from_mode(0o755))
        .expect("our own file");
    let mut workers: [Gateway; WORKERS] = std::array::from_fn(|_| deployment.start());
    let addresses = workers.each_ref().map(|worker| worker.address);
    // Every stored answer, counted by the database.
    deployment.sql(
        "CREATE TABLE stored (message bigint);
        CREATE FUNCTION count_answer() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN INSERT INTO stored VALUES (NEW.id); RETURN NULL; END';
        CREATE TRIGGER stored AFTER UPDATE OF answer ON messages FOR EACH ROW EXECUTE FUNCTION count_answer()",
    );
    let began = Instant::now();
    let mut kills = 0;
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_all(&addresses));
        while !asking.is_finished() || unanswered(deployment) > 0 {
            assert!(began.elapsed() < 2 * DEADLINE, "{} of them are not answered", unanswered(deployment));
            let next = CADENCE * (kills + 1);
            // tidy: sleep: the moment of the kill.
            std::thread::sleep(next.saturating_sub(began.elapsed()));
            if kills == MOST_KILLS {
                // A machine that is too slow to answer between two of them gets the time to end.
                continue;
            }
            let worker = workers.get_mut(rand::random_range(0..WORKERS)).expect("a worker");
            worker.signal(Signal::KILL);
            worker.process.wait().expect("our own child");
            *worker = deployment.spawn(worker.address);
            kills += 1;
        }
    });
    for address in addresses {
        until(|| TcpStream::connect(address).map_err(|error| error.to_string()));
    }
    workers.into_iter().for_each(Gateway::drain);
    // What a call of a killed process created after the others had swept.
    deployment.start().drain();
    check_answers(deployment);
    let claims: usize = deployment.sql("SELECT last_value FROM epochs").parse().expect("a number");
    assert!(claims > messages(), "the control: no kill hit an attempt");
}

fn messages() -> usize {
    CONVERSATIONS + CONVERSATIONS / LONGER
}

fn unanswered(deployment: &Deployment) -> usize {
    let count = deployment.sql("SELECT count(*) FROM messages WHERE answer IS NULL");
    count.parse().expect("a number")
}

fn any(addresses: &[SocketAddr; WORKERS]) -> SocketAddr {
    *addresses.get(rand::random_range(0..WORKERS)).expect("an address")
}

/// Asks all messages, at whichever process answers.
fn ask_all(addresses: &[SocketAddr; WORKERS]) {
    // A call whose process was killed may have done its work: a conflict then says so.
    let send = |method, path: &str, body: &str, done: [u16; 2]| {
        until(|| match call(any(addresses), method, path, body) {
            Ok((status, _)) if done.contains(&status) => Ok(()),
            other => Err(format!("{path}: {other:?}")),
        });
    };
    let ask = |index: usize, turn: usize| {
        send("POST", &format!("c{index}/prompts"), &format!("message {turn} of {index}"), [202, 409]);
    };
    for index in 0..CONVERSATIONS {
        send("PUT", &format!("c{index}"), &new_conversation(60), [201, 409]);
        ask(index, 1);
    }
    for index in (0..CONVERSATIONS).step_by(LONGER) {
        until(|| match call(any(addresses), "GET", &format!("c{index}"), "") {
            Ok((200, body)) if body.contains(r#""running":false"#) => Ok(()),
            other => Err(format!("{index}: {other:?}")),
        });
        ask(index, 2);
    }
}

fn check_answers(deployment: &Deployment) {
    let expected = messages();
    let stored = deployment.sql("SELECT count(*), count(DISTINCT message) FROM stored");
    assert_eq!(stored, format!("{expected}|{expected}"));
    let rows = deployment.sql(
        "SELECT conversation, session, answer FROM messages JOIN conversations
        ON conversation = conversations.id ORDER BY messages.id",
    );
    let mut answers = BTreeMap::<(&str, &str), Vec<String>>::new();
    for row in rows.lines() {
        let mut columns = row.splitn(3, '|');
        let [id, session, answer] = std::array::from_fn(|_| columns.next().expect("a column"));
        let answer = serde_json::from_str(answer).expect("JSON");
        answers.entry((id, session)).or_default().push(response_text(&answer));
    }
    assert_eq!(answers.len(), CONVERSATIONS);
    for ((id, session), texts) in answers {
        let index: usize = id.trim_start_matches('c').parse().expect("a number");
        let turns = if index.is_multiple_of(LONGER) { 1..=2 } else { 1..=1 };
        let said: Vec<_> = turns.map(|turn| format!("\"message {turn} of {index}\"")).collect();
        let expected: Vec<_> = (1..=said.len())
            .map(|turn| {
                format!(
                    "This is turn {turn}. You said: {}.",
                    said.get(..turn).unwrap_or_default().join(", then ")
                )
            })
            .collect();
        assert_eq!(texts, expected, "{id}");
        let conversation = deployment.conversations().join(id);
        assert_eq!(epochs(&conversation), [format!("epoch-{session}")]);
        let whole = context(&conversation, session);
        let kept: Vec<_> = whole.replies.iter().map(|reply| reply.response_text.clone()).collect();
        assert_eq!(kept, expected, "{id}");
        assert_eq!(whole.session_id_for_resume(), Some("a-b-c"), "{id}");
    }
}

fn response_text(answer: &Value) -> String {
    let text = answer.pointer("/result/response_text").and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// The names of the folders with sessions.
fn epochs(conversation: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(conversation).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    names.filter(|name| name != "log").collect()
}

/// A `context.json`, which is whole.
fn context(conversation: &Path, epoch: &str) -> SessionMetadata {
    let path = conversation.join(format!("epoch-{epoch}/context.json"));
    let bytes = std::fs::read(&path).expect("a session");
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
