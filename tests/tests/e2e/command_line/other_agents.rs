//! `agent --agent NAME`, with the real Codex, Gemini CLI and `OpenCode` from npm: two turns, a
//! denied request, a masked key, and an end in the middle of a stream.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use e2e_tests::setting::Setting;
use e2e_tests::world::World;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::project::{Ended, Project, assert_nothing_left};
use super::terminal::Terminal;

/// The differences between the agents.
struct Agent {
    name: &'static str,
    title: &'static str,
    key: &'static str,
    preset: &'static str,
    host: &'static str,
    /// A part of the path of its model requests.
    path: &'static str,
    header: &'static str,
    /// The text before the key in the header.
    scheme: &'static str,
    /// Other requests that it attempts, but works without.
    tries: &'static [&'static str],
    /// The prompt that makes the fake API return a shell command.
    shell: fn(&str) -> String,
}

const CODEX: Agent = Agent {
    name: "codex",
    title: "Codex",
    key: "CODEX_API_KEY",
    preset: "openai",
    host: "api.openai.com",
    path: "/responses",
    header: "authorization",
    scheme: "Bearer ",
    tries: &[],
    shell: |command| format!("command: {command}"),
};

const GEMINI: Agent = Agent {
    name: "gemini",
    title: "Gemini CLI",
    key: "GEMINI_API_KEY",
    preset: "gemini",
    host: "generativelanguage.googleapis.com",
    path: ":streamGenerateContent",
    header: "x-goog-api-key",
    scheme: "",
    // Usage statistics, which only a settings file disables.
    tries: &["play.googleapis.com"],
    shell: CODEX.shell,
};

const OPENCODE: Agent = Agent {
    name: "opencode",
    title: "OpenCode",
    key: "ANTHROPIC_API_KEY",
    preset: "anthropic",
    host: "api.anthropic.com",
    path: "/messages",
    header: "x-api-key",
    scheme: "",
    // The types of its plugins, which it fetches in the background.
    tries: &["@opencode-ai%2fplugin"],
    shell: |command| format!("scenario:tool-use\ncommand: {command}"),
};

impl Agent {
    fn program(&self) -> String {
        let setting = Setting::of_this_run();
        let program = match self.name {
            "codex" => &setting.codex,
            "gemini" => &setting.gemini,
            _ => &setting.opencode,
        };
        program.display().to_string()
    }

    /// A project where only the API is allowed; `key` is a line of its settings.
    fn project(&self, prefix: &str, key: &str) -> Project {
        let project = Project::with_prefix(prefix);
        project.write(".sandbox/network-allowlist.yaml", &format!("domains: [{}]\n", self.host));
        let node = Setting::of_this_run().node.display();
        project.append(
            ".sandbox/sandbox.yaml",
            &format!("agent: {}\nmounts: ['{node}:/usr/local/bin/node:ro']\n{key}\n", self.name),
        );
        project
    }

    fn masked(&self, value: &str) -> String {
        format!("masked_secrets: {{{}: {{value: {value}, preset: {}}}}}", self.key, self.preset)
    }

    fn arguments<'a>(program: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let common = ["agent", "--agent-bin", program, "--timeout", "300"];
        [&common[..], more].concat()
    }

    fn run(&self, project: &Project, more: &[&str]) -> Ended {
        project.output(&Self::arguments(&self.program(), more))
    }

    /// The number of model requests that reached the API with this key.
    fn requests_with(&self, key: &str) -> usize {
        let header = (self.header.to_owned(), format!("{}{key}", self.scheme));
        let requests = World::shared().seen(self.host).into_iter();
        requests.filter(|seen| seen.target.contains(self.path) && seen.headers.contains(&header)).count()
    }
}

/// The field `name` of an object; null if it is absent.
fn part<'a>(object: &'a Value, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

/// A second turn continues the first, in a session that Claude Code does not share.
fn two_turns(agent: &Agent) {
    let key = Setting::of_this_run().unique(&format!("sk-two-turns-{}", agent.name));
    let project = agent.project("e2e-cli", &agent.masked(&key));
    let first = agent.run(&project, &["--output", "json", "remember the word heliotrope"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let report = first.json();
    assert_eq!(
        (part(&report, "outcome"), part(&report, "exit_code")),
        (&"success".into(), &0.into()),
        "{first:?}"
    );
    assert!(part(&report, "session_id").as_str().is_some_and(|id| id.len() > 20), "{first:?}");
    assert!(
        part(&report, "response_text").as_str().is_some_and(|text| text.contains("heliotrope")),
        "{first:?}"
    );
    assert!(part(part(&report, "usage"), "output_tokens").as_u64() > Some(0), "{first:?}");
    let program = agent.program();
    let mut second = project.sandbox(&Agent::arguments(&program, &["--resume", "--output", "json"]));
    let mut second =
        second.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the sandbox command");
    second.stdin.take().expect("a pipe").write_all(b"--which word?").expect("a prompt");
    let second: Ended = second.wait_with_output().expect("the sandbox command").into();
    assert_eq!(second.code, Some(0), "{second:?}");
    let answer = second.json();
    assert!(
        part(&answer, "response_text")
            .as_str()
            .is_some_and(|text| text.contains("heliotrope") && text.contains("--which word?")),
        "it has the first turn, and the prompt is not parsed as an option: {second:?}"
    );
    assert_eq!(part(&answer, "session_id"), part(&report, "session_id"), "{second:?}");
    assert!(agent.requests_with(&key) > 0, "the API gets the real key");
    let claude = Setting::of_this_run().claude.display().to_string();
    let other =
        project.output(&["agent", "--agent", "claude", "--agent-bin", &claude, "--resume", "and now?"]);
    other.fails(125, "no session to resume");
    let fresh = agent.run(&project, &["--output", "json", "which word?"]);
    assert!(
        !part(&fresh.json(), "response_text").to_string().contains("heliotrope"),
        "the control: {fresh:?}"
    );
}

/// The agent's screen appears without a question, and the agent answers typed text.
fn answers_on_a_terminal(agent: &Agent, prompt: &str, answer: &str) {
    let key = Setting::of_this_run().unique(&format!("sk-typed-{}", agent.name));
    let project = agent.project(&format!("e2e-cli-typed-{}", agent.name), &agent.masked(&key));
    let program = agent.program();
    let mut terminal = Terminal::start(&project.sandbox(&Agent::arguments(&program, &[])));
    terminal.shows(prompt);
    terminal.types_until("heliotrope", "heliotrope");
    terminal.types_until("\r", answer);
    assert!(agent.requests_with(&key) > 0, "the API gets the real key");
    assert_eq!(project.output(&["stop"]).code, Some(0));
    assert_eq!(terminal.ends(), Some(143));
}

/// A tool's request that the policy blocks is logged, and the agent sees only a surrogate of its
/// key.
fn request_is_blocked_and_key_is_masked(agent: &Agent) {
    let key = Setting::of_this_run().unique(&format!("sk-masked-{}", agent.name));
    let blocked = format!("blocked-{}.test", agent.name);
    // Gemini CLI rejects command substitution.
    let command = format!("curl -sS https://{blocked}/x; echo; printf key=; printenv {} | rev", agent.key);
    let prompt = (agent.shell)(&command);
    let reversed: String = key.chars().rev().collect();
    let project = agent.project("e2e-cli", &agent.masked(&key));
    let ended = agent.run(&project, &["--output", "stream-json", &prompt]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("blocked_by_network_allowlist"), "{ended:?}");
    assert!(ended.stdout.contains("\"tool_use\"") && ended.stdout.contains("\"tool_result\""), "{ended:?}");
    assert!(!ended.stdout.contains(&reversed) && ended.stdout.contains("key="), "{ended:?}");
    let logs = project.output(&["logs", "--blocked"]);
    let refused: Vec<&str> = logs.stdout.lines().filter(|line| line.contains("BLOCKED")).collect();
    assert!(refused.iter().any(|line| line.contains(&blocked)), "{logs:?}");
    let is_expected =
        |line: &&str| line.contains(&blocked) || agent.tries.iter().any(|host| line.contains(host));
    assert!(refused.iter().all(is_expected), "no other request is blocked: {logs:?}");
    assert!(agent.requests_with(&key) > 0, "the API gets the real key");
    // The control: a key that is not masked is in the container.
    let plain = agent.project("e2e-cli", &format!("env: {{{}: {key}}}", agent.key));
    let control = agent.run(&plain, &["--output", "stream-json", &prompt]);
    assert!(control.stdout.contains(&reversed), "the control: {control:?}");
}

/// A stop in the middle of a stream leaves nothing except the session, which can be resumed.
async fn stopped_mid_stream_keeps_its_session(agent: &Agent) {
    let prefix = format!("e2e-cli-killed-{}", agent.name);
    let key = Setting::of_this_run().unique(&format!("sk-killed-{}", agent.name));
    let project = agent.project(&prefix, &agent.masked(&key));
    let program = agent.program();
    // Creates a session to resume.
    let first = agent.run(&project, &["remember the word heliotrope"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let arguments = Agent::arguments(&program, &["--resume", "--output", "stream-json", "scenario:hang"]);
    let before = agent.requests_with(&key);
    let mut child = project.sandbox(&arguments).stdout(Stdio::piped()).spawn().expect("the sandbox command");
    // Waits for the request, since OpenCode reports no event before the end of a step.
    let asked = async {
        while agent.requests_with(&key) == before {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(2), asked).await.expect("a request");
    assert!(child.try_wait().expect("a child").is_none(), "the control: it still runs");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("our own child");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let events: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(&line.expect("text")).expect("JSON")).collect();
    assert!(events.iter().all(|event| part(event, "type") != "result"), "{events:?}");
    assert_eq!(child.wait().expect("a child").code(), Some(143));
    assert_nothing_left(&prefix).await;
    // Agents append a prompt to one that has no answer.
    let resumed = agent.run(&project, &["--resume", "scenario:text which word?"]);
    assert!(resumed.stdout.contains("heliotrope"), "{resumed:?}");
}

/// An error of the API determines the outcome, and has a hint for this agent.
fn refusal_by_its_api_has_a_hint(agent: &Agent) {
    let project = agent.project("e2e-cli", &agent.masked("sk-refused-0123456789"));
    let refused = agent.run(&project, &["scenario:unauthorized"]);
    refused.fails(1, "authentication_failed");
    let hint = format!(": {} gets a surrogate of it", agent.title);
    assert!(refused.stderr.contains(&hint) && refused.stderr.contains(agent.key), "{refused:?}");
    let limited = agent.run(&project, &["--max-turns", "2", "hello"]);
    limited.fails(125, &format!("{} has no limit of turns", agent.title));
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_takes_two_turns() {
    two_turns(&CODEX);
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_request_is_blocked_and_its_key_is_masked() {
    request_is_blocked_and_key_is_masked(&CODEX);
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_answers_on_a_terminal() {
    answers_on_a_terminal(&CODEX, "Ask Codex", "asked:");
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_stopped_mid_stream_keeps_its_session() {
    stopped_mid_stream_keeps_its_session(&CODEX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_refused_by_its_api_reports_a_hint() {
    refusal_by_its_api_has_a_hint(&CODEX);
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_runs_tools_of_older_models_and_rejects_its_json_flag() {
    let project = CODEX.project("e2e-cli", &CODEX.masked("sk-briefed-0123456789"));
    let prompt = (CODEX.shell)("echo six times seven is $((6 * 7))");
    let older = CODEX.run(&project, &["--model", "gpt-5.5-codex", &prompt]);
    assert!(older.stdout.contains("six times seven is 42"), "{older:?}");
    let json = CODEX.run(&project, &["--output", "json", "hello", "--", "--json"]);
    json.fails(125, "`--json` is set by the sandbox");
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_takes_two_turns() {
    two_turns(&GEMINI);
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_request_is_blocked_and_its_key_is_masked() {
    request_is_blocked_and_key_is_masked(&GEMINI);
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_answers_on_a_terminal() {
    answers_on_a_terminal(&GEMINI, "Type your message", "asked:");
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_stopped_mid_stream_keeps_its_session() {
    stopped_mid_stream_keeps_its_session(&GEMINI).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_refused_by_its_api_reports_a_hint() {
    refusal_by_its_api_has_a_hint(&GEMINI);
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_takes_two_turns() {
    two_turns(&OPENCODE);
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_request_is_blocked_and_its_key_is_masked() {
    request_is_blocked_and_key_is_masked(&OPENCODE);
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_answers_on_a_terminal() {
    answers_on_a_terminal(&OPENCODE, "Ask anything", "said:");
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_stopped_mid_stream_keeps_its_session() {
    stopped_mid_stream_keeps_its_session(&OPENCODE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_refused_by_its_api_reports_a_hint() {
    refusal_by_its_api_has_a_hint(&OPENCODE);
}
