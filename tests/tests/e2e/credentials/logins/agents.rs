//! Agents whose login expires: before they start, ten at once, and in the middle of a stream.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use e2e_tests::assert_held;
use e2e_tests::setting::Setting;
use e2e_tests::world::World;
use serde_json::Value;

use super::machine::{Machine, TOKEN, command, run, until};
use super::vendor::Wait;
use crate::command_line::project::Ended;
use crate::command_line::stand_in::{RESULT, StandIn};

/// The remaining lifetime of a token that is refreshed when a run starts.
const EXPIRED: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_hours(8);

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_works_with_a_masked_login() {
    let host = "login.anthropic.test";
    let machine = Machine::new(host, EXPIRED);
    let project = machine.project();
    let settings = format!(
        "env: {{ANTHROPIC_BASE_URL: 'https://{host}', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: \"1\", CLAUDE_CODE_MAX_RETRIES: \"1\"}}\n"
    );
    project.append(".sandbox/sandbox.yaml", &settings);
    let claude = Setting::of_this_run().claude.display().to_string();
    let session = tempfile::tempdir().expect("a folder");
    let folder = session.path().join("session").display().to_string();
    let agent = |session: &str| {
        project.output(&[
            "agent",
            "--claude-bin",
            &claude,
            "--session-dir",
            session,
            "--timeout",
            "120",
            "say hello",
        ])
    };
    for _ in 0..2 {
        let ended = agent(&folder);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        // Changes that the agent made to the file are overwritten.
        fs::write(format!("{folder}/claude/.credentials.json"), "{}").expect("our own file");
    }
    assert_eq!(machine.vendor.asked(), 1, "it expired once");
    let access = machine.stored()[0].clone();
    assert_eq!(access, machine.vendor.issued(1)[0]);
    let seen = format!("{:?}", World::shared().seen(host));
    assert!(seen.contains(&format!("Bearer {access}")) && seen.contains("oauth-2025-04-20"), "{seen}");

    // The control: an agent without a login reports that, and sends no request.
    let text = fs::read_to_string(project.path().join(".sandbox/sandbox.yaml")).expect("a file");
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("logins")).collect();
    project.write(".sandbox/sandbox.yaml", &(without.join("\n") + "\n"));
    let other = session.path().join("other").display().to_string();
    agent(&other).fails(1, "Claude Code gets a surrogate of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn login_file_of_an_agent_has_surrogates_and_a_distant_expiry() {
    let machine = Machine::new("login-file.test", LONG);
    let agent = StandIn::new(&format!(
        "{TOKEN}\ncp /root/.claude/.credentials.json /workspace/copy\necho '{RESULT}'"
    ));
    let project = machine.project();
    let ended = run(&project, &agent);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = fs::read_to_string(project.path().join("copy")).expect("the agent's copy");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let login = &file["claudeAiOauth"];
    assert_eq!((&login["subscriptionType"], &login["scopes"][0]), (&"max".into(), &"user:inference".into()));
    assert_eq!(login["expiresAt"], 4_102_444_800_000_u64);
    for (name, start) in [("accessToken", "sk-ant-oat01-"), ("refreshToken", "sk-ant-ort01-")] {
        let token = login[name].as_str().expect("a token");
        assert_held!(!machine.vendor.tokens().iter().any(|real| real == token), "{name} is a real one");
        assert!(token.starts_with(start), "{name}");
    }
    // The surrogate of the refresh token is worthless at the vendor.
    let answer = machine.vendor.refresh(login["refreshToken"].as_str().expect("a token"));
    assert_held!(answer.contains("invalid_grant"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_agents_with_an_expired_token_refresh_it_once_and_all_work() {
    let machine = Machine::new("login-ten.test", EXPIRED);
    let agents: Vec<_> = (0..10).map(|_| (machine.project(), machine.asking_agent())).collect();
    let children: Vec<_> = agents
        .iter()
        .map(|(project, agent)| {
            let mut command = command(project, agent);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the sandbox command")
        })
        .collect();
    for child in children {
        let ended: Ended = child.wait_with_output().expect("our own child").into();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert_eq!(machine.vendor.asked(), 1);
    assert_eq!(machine.stored(), machine.vendor.issued(1));
    // The control: using a refresh token twice, as unsynchronized agents would, ends the login for
    // all.
    let [_, used] = machine.vendor.issued(0);
    assert!(machine.vendor.refresh(&used).contains("invalid_grant"));
    machine.write(&machine.stored(), EXPIRED);
    let (project, agent) = &agents[0];
    run(project, agent).fails(125, "was refused (invalid_grant): log in again with `claude`");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_outlives_its_token_and_the_next_request_has_the_new_one() {
    let host = "login-stream.test";
    // The token is due; its first refresh fails, and the next waits until the stream has begun.
    let machine = Machine::new(host, Duration::from_mins(4));
    machine.vendor.fail_once();
    machine.vendor.wait(Some(Wait::Request));
    let agent = StandIn::new(&format!(
        "{TOKEN}
curl -sS -N --fail -H \"Authorization: Bearer $TOKEN\" https://{host}/sse/login-stream | tee /workspace/stream >/dev/null
touch /workspace/over
until [ -e /workspace/go ]; do sleep 0.1; done
curl -sS --fail -H \"Authorization: Bearer $TOKEN\" https://{host}/after >&2 || exit 9
echo '{RESULT}'"
    ));
    let project = machine.project();
    let child = command(&project, &agent).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the sandbox command");
    let is_there = |name: &str| project.path().join(name).exists();
    let stream = || fs::read_to_string(project.path().join("stream")).unwrap_or_default();
    until("the stream does not begin", || !stream().is_empty()).await;
    assert_eq!(machine.vendor.asked(), 0, "the stream began with the first token");
    machine.vendor.wait(None);
    machine.vendor.await_issued(2);
    let begun = stream();
    assert!(!is_there("over"), "the stream is open");
    // The log records when the proxy has the new token.
    until("the proxy does not get it", || {
        project.output(&["logs"]).stdout.contains("POLICY credentials renewed")
    })
    .await;
    World::shared().release("login-stream");
    until("the stream does not end", || is_there("over")).await;
    assert!(stream().len() > begun.len(), "the stream continued: {}", stream());
    project.write("go", "");
    let ended: Ended = child.wait_with_output().expect("our own child").into();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let seen = World::shared().seen(host);
    let token_of = |target: &str| {
        let request = seen.iter().find(|request| request.target == target).expect("a request");
        format!("{:?}", request.headers)
    };
    assert!(token_of("/sse/login-stream").contains(&machine.vendor.issued(0)[0]));
    assert!(token_of("/after").contains(&machine.vendor.issued(1)[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_token_is_refreshed_once_before_its_expiry() {
    let host = "login-401.test";
    let machine = Machine::new(host, LONG);
    // The service expects another token than the one in the file, as after a revocation.
    let [_, refresh] = machine.vendor.issued(0);
    machine.write(&["sk-ant-oat01-0123456789abcdefghijklmnopqrstuvwxyz".to_owned(), refresh], LONG);
    let agent = StandIn::new(&format!(
        "{TOKEN}
for attempt in $(seq 300); do
    curl -sS --fail -o /dev/null -H \"Authorization: Bearer $TOKEN\" https://{host}/ && echo '{RESULT}' && exit 0
    sleep 0.2
done
exit 9"
    ));
    let ended = run(&machine.project(), &agent);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!((machine.vendor.asked(), machine.stored()), (1, machine.vendor.issued(1)));
    // The control: for a host that refuses every token, there is only one refresh.
    let machine = Machine::new("login-401-always.test", LONG);
    let agent = StandIn::new(&format!(
        "{TOKEN}
for attempt in $(seq 20); do
    curl -sS -o /dev/null -H \"Authorization: Bearer $TOKEN\" https://login-401-always.test/status/401
    sleep 0.2
done
echo '{RESULT}'"
    ));
    let ended = run(&machine.project(), &agent);
    assert_eq!((ended.code, machine.vendor.asked()), (Some(0), 1), "{ended:?}");
}
