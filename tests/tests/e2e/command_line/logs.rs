//! `logs`, and the copies of the network log.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use super::project::Project;

#[tokio::test(flavor = "multi_thread")]
async fn network_log_is_live_on_stderr_and_in_files() {
    let project = Project::new();
    let script =
        "curl -sS https://open.test/hello; curl -sS https://evil.test/steal >/dev/null; echo err >&2";
    let arguments = ["run", "--network-log-live", "--network-log", "net.log", "--", "bash", "-c", script];
    let ended = project.output(&arguments);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "hello from open.test\n"), "{ended:?}");
    let allowed = "allowed GET https://open.test/hello -> 200";
    let blocked = "BLOCKED GET https://evil.test/steal -> 403 [reason: host]";
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(lines.contains(&format!("[net] {allowed}").as_str()), "{ended:?}");
    assert!(lines.contains(&format!("[net] {blocked}").as_str()), "{ended:?}");
    assert!(lines.contains(&"err"), "{ended:?}");
    let text = fs::read_to_string(project.path().join("net.log")).expect("the log");
    assert!(text.lines().any(|line| line == allowed) && text.lines().any(|line| line == blocked), "{text}");
    let json = fs::read_to_string(project.path().join("net.log.jsonl")).expect("the log for programs");
    let events: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(
        events.iter().any(|event| event["decision"] == "blocked" && event["host"] == "evil.test"),
        "{json}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_shows_the_newest_or_the_named_run() {
    let project = Project::new();
    let none = project.output(&["logs"]);
    none.fails(125, "hint: ");
    project.run("curl -sS https://open.test/first");
    project.run("curl -sS https://evil.test/second");

    let newest = project.output(&["logs"]);
    assert!(newest.stdout.contains("evil.test/second") && !newest.stdout.contains("first"), "{newest:?}");
    let blocked = project.output(&["logs", "--blocked"]);
    assert_eq!(blocked.stdout, "BLOCKED GET https://evil.test/second -> 403 [reason: host]\n");
    let json = project.output(&["logs", "--blocked", "--output", "json"]).json();
    assert_eq!((&json["event"], &json["reason"]), (&"request".into(), &"host".into()), "{json}");
    let list = project.output(&["ps", "--all", "--output", "json"]).json();
    let here = project.path().canonicalize().expect("the project").display().to_string();
    let runs = list["runs"].as_array().expect("a list").iter().filter(|run| run["project"] == here.as_str());
    let ids: Vec<&str> = runs.filter_map(|run| run["id"].as_str()).collect();
    assert_eq!(ids.len(), 2, "{list}");
    let first = project.output(&["logs", "--run", ids[0]]);
    assert!(first.stdout.contains("open.test/first"), "{first:?}");
    assert_eq!(project.output(&["logs", "--run", "../x"]).code, Some(125));
    let report = project.output(&["report"]);
    let page = std::fs::read_to_string(report.stdout.trim_end()).expect("a page");
    assert!(page.contains("<code>GET https://evil.test/second</code>"), "{page}");
    let json = project.output(&["report", "--output", "json"]).json();
    let refusal = (&json["refusals"][0]["url"], &json["refusals"][0]["reason"]);
    assert_eq!(
        (&json["version"], refusal),
        (&1.into(), (&"https://evil.test/second".into(), &"host".into()))
    );
    // The report replaces a link that a task made, and is not written through it.
    std::os::unix::fs::symlink(
        project.path().join(".sandbox/sandbox.yaml"),
        project.path().join("page.html"),
    )
    .expect("a link");
    let named = project.output(&["report", ids[0], "--file", "page.html"]);
    assert_eq!(named.stdout, "page.html\n", "{named:?}");
    let page = project.path().join("page.html");
    assert!(!page.is_symlink() && std::fs::read_to_string(page).expect("a page").contains("open.test/first"));
    let followed = project.output(&["logs", "--follow"]);
    assert_eq!(followed.stdout, newest.stdout, "--follow on an ended run prints all of its log");
}

#[tokio::test(flavor = "multi_thread")]
async fn report_on_many_runs_lists_hosts_refusals_and_unused_rules() {
    let project = Project::new();
    project.output(&["report", "--since", "7d"]).fails(125, "hint: ");
    project.run("curl -sS https://open.test/hello");
    project.run("curl -sS https://open.test/hello https://evil.test/second");
    let json = project.output(&["report", "--since", "1h", "--output", "json"]).json();
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(2), "{json}");
    let hosts = ["/hosts/0", "/hosts/1"].map(|at| json.pointer(at).expect("a host"));
    let used = |host: &Value| json!([host["host"], host["allowed"], host["blocked"], host["runs"]]);
    assert_eq!(hosts.map(used), [json!(["open.test", 2, 0, 2]), json!(["evil.test", 0, 1, 1])]);
    let refused = "https://evil.test/second";
    assert_eq!((&json["refusals"][0]["url"], &json["refusals"][0]["runs"]), (&refused.into(), &1.into()));
    let [unused, used] = ["api.anthropic.com", "open.test"];
    assert_eq!(
        json["rules"],
        json!([
            {"rule": format!("domains[1]: {unused}"), "requests": 0},
            {"rule": format!("domains[0]: {used}"), "requests": 2},
        ])
    );
    let ended = project.output(&["report", "--since", "7d"]);
    let page = fs::read_to_string(ended.stdout.trim_end()).expect("a page");
    assert!(page.contains("<code>GET https://evil.test/second</code>"), "{page}");
    let named = project.output(&["report", "--since", "7d", "--file", "page.html"]);
    assert_eq!(named.stdout, "page.html\n", "{named:?}");
    assert!(fs::read_to_string(project.path().join("page.html")).expect("a page").contains("evil.test"));
    let none = project.output(&["report", "--since", "0"]);
    assert!(fs::read_to_string(none.stdout.trim_end()).expect("a page").contains("No runs."), "{none:?}");
    assert_eq!(project.output(&["report", "--since", "7d", "x"]).code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_log_ends_with_its_run() {
    let project = Project::new();
    let (mut child, _stdout) =
        project.start("echo ready; until [ -e go ]; do sleep 0.1; done; curl -sS https://evil.test/late");
    let mut follower =
        project.sandbox(&["logs", "--follow"]).stdout(Stdio::piped()).spawn().expect("the sandbox command");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("a line");
    assert!(first.starts_with("=== TASK START"), "{first}");
    project.write("go", "");
    let rest: Vec<String> = lines.map(|line| line.expect("a line")).collect();
    assert!(rest.iter().any(|line| line.contains("BLOCKED GET https://evil.test/late")), "{rest:?}");
    assert!(follower.wait().expect("our own child").success());
    assert!(child.wait().expect("our own child").success());
}

/// Reads `length` bytes of the output of `yes LINE`.
#[track_caller]
fn reads_lines(source: &mut impl Read, line: &str, length: usize) {
    let lines = format!("{line}\n").repeat(4096).into_bytes();
    let (mut bytes, mut read) = (vec![0; 1 << 16], 0);
    while read < length {
        let wanted = bytes.len().min(length - read);
        let count = source.read(bytes.get_mut(..wanted).expect("its size")).expect("output");
        assert_ne!(count, 0, "it ends after {read} bytes");
        let at = read % (line.len() + 1);
        assert!(bytes.get(..count) == lines.get(at..at + count), "after {read} bytes");
        read += count;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn background_output_is_stored_whole_and_not_in_memory() {
    const LENGTH: usize = 256 << 20;
    const LINE: &str = "the output of a talkative program";
    let project = Project::with_prefix("e2e-cli-output");
    let script = format!("yes {LINE} | head -c {LENGTH}; until [ -e go ]; do sleep 0.1; done; exit 3");
    let started = project.output(&["run", "-d", "--", "bash", "-c", &script]);
    assert_eq!(started.code, Some(0), "{started:?}");
    let id = started.stdout.trim_end();
    let run = &project.output(&["ps", "--output", "json"]).json()["runs"][0];
    let pid = run["pid"].as_u64().expect("a number");

    let mut follow = project.sandbox(&["logs", "--program", "--follow", id]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().expect("the sandbox command");
    let mut output = follow.stdout.take().expect("a pipe");
    reads_lines(&mut output, LINE, LENGTH);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the owner");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    let kibibytes: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kibibytes < 128 * 1024, "{peak}");
    project.write("go", "");
    assert_eq!(output.read(&mut [0]).expect("output"), 0, "it is complete");
    assert!(follow.wait().expect("our own child").success());

    assert_eq!(project.output(&["wait", id]).code, Some(3));
    let mut again = project.sandbox(&["attach", id]).stdout(Stdio::piped()).spawn().expect("the command");
    let mut output = again.stdout.take().expect("a pipe");
    reads_lines(&mut output, LINE, LENGTH);
    assert_eq!(again.wait().expect("our own child").code(), Some(3));
    assert_eq!(project.output(&["rm", id]).code, Some(0));
    project.output(&["logs", "--program", id]).fails(125, "unknown run");
}

#[tokio::test(flavor = "multi_thread")]
async fn program_output_of_a_run_in_front_is_not_stored() {
    let project = Project::with_prefix("e2e-cli-unstored");
    assert_eq!(project.run("echo hi").code, Some(0));
    project.output(&["logs", "--program"]).fails(125, "that of runs with -d or -t is stored");
    project.output(&["logs", "--program", "--blocked"]).fails(2, "cannot be used with");
}
