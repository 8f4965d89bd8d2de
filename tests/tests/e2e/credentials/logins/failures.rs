//! Ends of a login: a refusal, and a kill between the vendor's response and the write of the file.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use e2e_tests::assert_held;
use e2e_tests::world::World;
use e2e_tests::{DEADLINE, engine};
use rustix::process::{Pid, Signal, kill_process};

use super::machine::{Machine, TOKEN, command, run, until};
use super::vendor::Wait;
use crate::command_line::project::Ended;
use crate::command_line::stand_in::{RESULT, StandIn};

const EXPIRED: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_hours(8);
/// A remaining lifetime below the refresh threshold. If the refresh fails, a run begins with the
/// current token and retries while its task runs.
const DUE: Duration = Duration::from_mins(4);

#[tokio::test(flavor = "multi_thread")]
async fn refused_refresh_is_final_until_the_next_login() {
    let host = "login-refused.test";
    let machine = Machine::new(host, EXPIRED);
    machine.vendor.revoke();
    let (project, agent) = (machine.project(), machine.asking_agent());
    for _ in 0..2 {
        let refused = run(&project, &agent);
        assert_held!(
            !machine.vendor.tokens().iter().any(|token| refused.stderr.contains(token)),
            "{refused:?}"
        );
        refused.fails(125, "was refused (invalid_grant): log in again with `claude`");
    }
    assert_eq!(machine.vendor.asked(), 1, "the token is not sent again");
    assert!(World::shared().seen(host).is_empty(), "nothing was started");
    // The control: with a new login it works.
    machine.write(&machine.vendor.log_in(), LONG);
    let ended = run(&project, &agent);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refresh_refused_during_a_task_warns_and_is_not_repeated() {
    let host = "login-late.test";
    let machine = Machine::new(host, DUE);
    machine.vendor.fail_once();
    machine.vendor.revoke();
    let agent = StandIn::new(&format!(
        "{TOKEN}
until [ -e /workspace/go ]; do sleep 0.1; done
curl -sS --fail -H \"Authorization: Bearer $TOKEN\" https://{host}/ >&2 || exit 9
echo '{RESULT}'"
    ));
    let project = machine.project();
    let child = command(&project, &agent).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the sandbox command");
    until("no refresh", || machine.vendor.asked() == 1).await;
    project.write("go", "");
    let ended: Ended = child.wait_with_output().expect("our own child").into();
    assert_eq!(ended.code, Some(0), "the current token is valid for minutes: {ended:?}");
    assert!(
        ended.stderr.contains(
            "failed to renew `logins.claude`; the previous value remains in use; no further attempt"
        ) && ended.stderr.contains("log in again with `claude`"),
        "{ended:?}"
    );
    assert_eq!(machine.vendor.asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_between_answer_and_file_loses_the_login_and_is_reported() {
    let machine = Machine::new("login-killed.test", EXPIRED);
    let (project, agent) = (machine.project(), machine.asking_agent());
    let start = || {
        machine.vendor.wait(Some(Wait::Answer));
        let child = command(&project, &agent).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        child.expect("the sandbox command")
    };
    let mut killed = start();
    machine.vendor.await_issued(2);
    killed.kill().expect("our own child");
    killed.wait().expect("our own child");
    machine.vendor.wait(None);
    assert_eq!(machine.stored(), machine.vendor.issued(0), "the answer is lost, and the file is whole");
    // The lock that it held for `claude` is stale after a minute.
    let lock = File::open(machine.file().with_file_name(".oauth_refresh.lock")).expect("a folder");
    lock.set_modified(SystemTime::now() - Duration::from_mins(2)).expect("our own folder");
    for _ in 0..2 {
        let lost = run(&project, &agent);
        lost.fails(
            125,
            "an earlier refresh was cut off before its answer was stored, so its tokens are lost: log in again with `claude`",
        );
    }
    // The control: the same without the kill.
    machine.write(&machine.vendor.log_in(), EXPIRED);
    let child = start();
    machine.vendor.await_issued(4);
    machine.vendor.wait(None);
    let ended: Ended = child.wait_with_output().expect("our own child").into();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(machine.stored(), machine.vendor.issued(3));
    let left: Vec<_> = fs::read_dir(machine.file().parent().expect("a folder"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, [".credentials.json"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_endpoint_leaves_the_current_token_in_use() {
    let machine = Machine::new("login-unreachable.test", DUE);
    let (project, agent) = (machine.project(), machine.asking_agent());
    let text = fs::read_to_string(project.path().join(".sandbox/sandbox.yaml")).expect("a file");
    project.write(".sandbox/sandbox.yaml", &text.replace(&machine.vendor.url(), "http://127.0.0.1:1/token"));
    let ended = run(&project, &agent);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(machine.stored(), machine.vendor.issued(0));
    // The control: an expired token cannot be used.
    machine.write(&machine.vendor.issued(0), EXPIRED);
    run(&project, &agent)
        .fails(125, "failed to refresh the login at http://127.0.0.1:1/token: failed to connect");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_command_waits_for_a_pending_refresh() {
    let prefix = "e2e-login-interrupted";
    let machine = Machine::new("login-interrupted.test", DUE);
    machine.vendor.fail_once();
    machine.vendor.wait(Some(Wait::Answer));
    let agent = StandIn::new(": > /workspace/begun; exec sleep 600");
    let project = machine.project_with_prefix(prefix);
    let child = command(&project, &agent).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the sandbox command");
    until("the agent does not begin", || project.path().join("begun").exists()).await;
    machine.vendor.await_issued(2);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("our own child");
    // The refresh is the only thing that the command still waits for.
    let begun = Instant::now();
    while !engine::containers(prefix).await.is_empty() {
        assert!(begun.elapsed() < DEADLINE, "the task is not removed");
    }
    machine.vendor.wait(None);
    let ended: Ended = child.wait_with_output().expect("our own child").into();
    assert_eq!(ended.code, Some(143), "{ended:?}");
    assert_eq!(machine.stored(), machine.vendor.issued(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn login_of_a_project_needs_trust_and_a_file_that_tasks_cannot_write() {
    let machine = Machine::new("login-trust.test", LONG);
    let (project, agent) = (machine.project(), machine.asking_agent());
    let refused: Ended = project.wary(&agent.arguments(&[])).output().expect("the sandbox command").into();
    assert_held!(refused.code != Some(0), "a login is used for a project that is not trusted: {refused:?}");
    refused.fails(125, &format!("use your login of claude in `{}`", machine.file().display()));
    refused.fails(125, &format!("refreshed at `{}", machine.vendor.url()));
    // The control: a trusted project.
    let ended = run(&project, &agent);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = fs::read_to_string(project.path().join(".sandbox/sandbox.yaml")).expect("a file");
    fs::copy(machine.file(), project.path().join("planted")).expect("a file");
    let planted = text.replace(&machine.file().display().to_string(), "../planted");
    project.write(".sandbox/sandbox.yaml", &planted);
    let refused = run(&project, &agent);
    assert_held!(refused.code != Some(0), "a login that a task could write is used: {refused:?}");
    refused.fails(125, "is where tasks can write, so this login is not used");
    for (url, expected) in [
        ("http://vendor.test/token", "`token_url` is not an address"),
        ("https://x@vendor.test/", "`token_url` is not"),
    ] {
        project.write(".sandbox/sandbox.yaml", &text.replace(&machine.vendor.url(), url));
        run(&project, &agent).fails(125, expected);
    }
}
