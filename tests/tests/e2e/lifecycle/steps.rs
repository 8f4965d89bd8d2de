//! Kill -9 of the `sandbox` command at every step of an execution. The next start removes all
//! leftovers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::engine;
use e2e_tests::secret::unique;
use sandbox::session::{SessionMetadata, SessionStore};

use crate::command_line::project::{Project, assert_nothing_left};
use crate::command_line::stand_in::{RESULT, StandIn};

/// The number of kills, distributed evenly over 1.5 times the duration of an execution.
const KILLS: u32 = 16;

/// Kills an execution at each step; returns the leftovers of each kill, as numbers of containers
/// and networks. The last execution waits if it finds a file `hold`, and is killed once
/// `is_at_work`.
///
/// The steps are fractions of the duration of an execution, so that they are the same on a slow
/// machine.
async fn kill_at_every_step(
    prefix: &str,
    project: &Project,
    arguments: &[&str],
    hold: &Path,
    is_at_work: impl Fn() -> bool,
    after_each: impl Fn(),
) -> BTreeSet<(usize, usize)> {
    // The first execution builds the image.
    let mut took = Duration::ZERO;
    for _ in 0..2 {
        let begun = Instant::now();
        let whole = project.output(arguments);
        took = begun.elapsed();
        assert_eq!(whole.code, Some(0), "the control: it works: {whole:?}");
    }
    assert_nothing_left(prefix).await;
    let mut left = BTreeSet::new();
    for step in 0..=KILLS {
        if step == KILLS {
            fs::write(hold, "").expect("a file");
        }
        let mut child = project
            .sandbox(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the sandbox command");
        let deadline = Instant::now() + DEADLINE;
        while step == KILLS && !is_at_work() {
            assert!(Instant::now() < deadline, "the execution does not begin");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if step < KILLS {
            tokio::time::sleep(took * 3 * step / (2 * KILLS)).await;
        }
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        after_each();
        left.insert((engine::containers(prefix).await.len(), engine::networks(prefix).await.len()));
    }
    fs::remove_file(hold).expect("a file");
    left
}

/// An engine may still create objects after its client has died, even after a sweep, and a start
/// does not wait for that. So this waits until the engine creates nothing more.
async fn until_settled(prefix: &str) {
    let deadline = Instant::now() + DEADLINE;
    let there = async || (engine::containers(prefix).await, engine::networks(prefix).await);
    let mut before = there().await;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = there().await;
        if now == before {
            return;
        }
        assert!(Instant::now() < deadline, "the engine still creates objects: {now:?}");
        before = now;
    }
}

/// The files below `folder` that contain `text`.
fn with_text(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if fs::read(&path)
                .is_ok_and(|bytes| memchr::memmem::find(&bytes, text.as_bytes()).is_some())
            {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn run_killed_at_any_step_is_removed_by_the_next_start() {
    let prefix = "e2e-steps-run";
    let project = Project::with_prefix(prefix);
    let real = unique("ghp_", 36);
    let secrets =
        format!("masked_secrets: {{TOKEN: {{value: {real}, scopes: [open.test], headers: [X-Key]}}}}\n");
    project.append(".sandbox/sandbox.yaml", &secrets);
    let script =
        "curl -sS -H \"X-Key: $TOKEN\" https://open.test/; [ ! -e hold ] || { touch begun; sleep 600; }";
    let arguments = ["run", "--", "bash", "-c", script];
    let no_secret = || {
        assert_eq!(with_text(project.state(), &real), Vec::<String>::new());
    };
    let [hold, begun] = ["hold", "begun"].map(|name| project.path().join(name));
    let left = kill_at_every_step(prefix, &project, &arguments, &hold, || begun.exists(), no_secret).await;
    assert!(left.iter().any(|(containers, _)| *containers > 1), "the control: something was left: {left:?}");
    assert_eq!(with_text(project.path(), &real).len(), 1, "the control: a file with the secret is found");
    until_settled(prefix).await;
    let next = project.run("true");
    assert_eq!(next.code, Some(0), "{next:?}");
    assert_nothing_left(prefix).await;
    no_secret();
    let status = project.output(&["status", "--output", "json"]);
    let report = status.json();
    let instances = report["instances"].as_array().expect("instances");
    let objects: usize = instances
        .iter()
        .filter_map(|instance| instance["objects"].as_array())
        .flatten()
        .filter(|object| matches!(object["role"].as_str(), Some("task" | "proxy" | "run")))
        .count();
    assert_eq!(objects, 0, "{report}");
}

/// A fake Claude Code that works for a little more than a second.
const AGENT: &str = r#"cd /root/.claude; echo '{"type":"system","subtype":"init","session_id":"a-b-c"}'
for i in {1..40}; do echo "{\"type\":\"x\",\"number\":$i}"; sleep 0.02; [ $i != 20 ] || [ ! -e hold ] || { touch begun; sleep 600; }; done"#;

#[tokio::test(flavor = "multi_thread")]
async fn agent_killed_at_any_step_leaves_a_session_that_parses() {
    let prefix = "e2e-steps-agent";
    let project = Project::with_prefix(prefix);
    let stand_in = StandIn::new(&format!("{AGENT}\necho '{RESULT}'"));
    let (arguments, session) = (stand_in.arguments(&[]), stand_in.session());
    let parses = || -> Option<SessionMetadata> {
        let text = fs::read_to_string(session.join("context.json")).expect("a session");
        serde_json::from_str::<serde_json::Value>(&text).expect("whole JSON");
        SessionStore::open(session, "agent")
            .and_then(|store| store.load())
            .expect("a session that can be read")
    };
    let journal = session.join("context.journal.jsonl");
    let [hold, begun] = ["hold", "begun"].map(|name| session.join("claude").join(name));
    let has_ten = || fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"number\":10"));
    let is_at_work = || begun.exists() && has_ten();
    let left = kill_at_every_step(prefix, &project, &arguments, &hold, is_at_work, || drop(parses())).await;
    assert!(left.iter().any(|(containers, _)| *containers > 1), "the control: {left:?}");
    let killed = parses().expect("a session").replies;
    assert!(
        killed.iter().skip(2).any(|reply| !reply.events.is_empty() && reply.events.len() < 42),
        "the control: one was killed amid its events: {:?}",
        killed.iter().map(|reply| reply.events.len()).collect::<Vec<_>>()
    );

    until_settled(prefix).await;
    let next = project.output(&arguments);
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "hi\n"), "{next:?}");
    assert_nothing_left(prefix).await;
    let replies = parses().expect("a session").replies;
    assert_eq!(replies.len(), killed.len() + 1);
    assert!(
        replies
            .iter()
            .all(|reply| reply.is_error != reply.events.iter().any(|event| event.as_result().is_some())),
        "the execution that was cut off has failed"
    );
    assert!(!session.join("context.journal.jsonl").exists());
}
