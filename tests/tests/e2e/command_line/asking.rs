//! `--ask`: on a terminal, in the background, and with neither.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use serde_json::{Value, json};

use super::project::{Ended, Project, assert_nothing_left};
use super::terminal::{Terminal, wait_until_nothing_left};

const PROMPT: &str = "[o]nce, for this [r]un, [a]lways, [n]o?";

fn policy(project: &Project) -> String {
    fs::read_to_string(project.path().join(".sandbox/network-allowlist.yaml")).expect("a file")
}

/// A script that prints the status of a request to each of `urls`.
fn requests(urls: &str) -> String {
    format!("for url in {urls}; do curl -s -o /dev/null -w \"$url came to %{{http_code}}\\n\" \"$url\"; done")
}

#[tokio::test(flavor = "multi_thread")]
async fn question_on_a_terminal_accepts_once_run_always_and_no() {
    let prefix = "e2e-cli-ask";
    let project = Project::with_prefix(prefix);
    let before = policy(&project);
    let script = requests(
        "https://open.test/ https://once.test/ https://once.test/ https://run.test/ https://run.test/ https://always.test/x?y=1 https://always.test/x?y=1 \
         https://run.test/          https://no.test/ https://no.test/?z",
    );
    let mut terminal = Terminal::start(&project.sandbox(&[
        "run",
        "--ask",
        "--ask-timeout",
        "10m",
        "--",
        "bash",
        "-c",
        &script,
    ]));
    // Type-ahead, and input that is not an answer.
    terminal.types("always\na\n");
    terminal.shows("https://open.test/ came to 200");
    terminal.shows("{host: once.test, path: /, methods: [GET]}");
    terminal.shows("GET https://once.test/");
    terminal.shows(PROMPT);
    terminal.types("\n");
    terminal.shows(PROMPT);
    terminal.types("yes\n");
    terminal.shows(PROMPT);
    terminal.types("o\n");
    terminal.shows("https://once.test/ came to 200");
    assert_eq!(policy(&project), before);
    terminal.shows("GET https://once.test/");
    terminal.shows(PROMPT);
    terminal.types("n\n");
    terminal.shows("https://once.test/ came to 403");
    terminal.shows("GET https://run.test/");
    terminal.shows(PROMPT);
    terminal.types("r\n");
    for _ in 0..2 {
        assert!(!terminal.shows("https://run.test/ came to 200").contains(PROMPT), "it holds for the run");
    }
    assert_eq!(policy(&project), before);
    terminal.shows("GET https://always.test/x?y=1");
    terminal.shows(PROMPT);
    terminal.types("a\n");
    terminal.shows("+ {host: always.test");
    terminal.shows("https://always.test/x?y=1 came to 200");
    assert_eq!(
        policy(&project),
        format!("{before}url_prefixes:\n  - {{host: always.test, path: \"/x[?]y=1\", methods: [GET]}}\n")
    );
    terminal.shows("https://always.test/x?y=1 came to 200");
    let later = terminal.shows("https://run.test/ came to 200");
    assert!(!later.contains(PROMPT), "a later answer does not end it");
    terminal.shows("GET https://no.test/");
    terminal.shows(PROMPT);
    terminal.types("n\n");
    terminal.shows("https://no.test/ came to 403");
    assert!(!terminal.shows("https://no.test/?z came to 403").contains(PROMPT), "the denial is remembered");
    assert_eq!(terminal.ends(), Some(0));
    let log = project.output(&["logs"]).stdout;
    for line in [
        "-> once [by: terminal]",
        "-> run [by: terminal]",
        "-> always [by: terminal]",
        "-> no [by: terminal]",
    ] {
        assert!(log.contains(line), "{line} is not in {log}");
    }
    // The new rule persists, and is trusted like the rules that the user wrote.
    let again = project.run(&requests("https://always.test/x?y=1 https://once.test/ https://run.test/"));
    assert_eq!(
        again.stdout,
        "https://always.test/x?y=1 came to 200\nhttps://once.test/ came to 403\nhttps://run.test/ came to 403\n",
        "{again:?}"
    );
    assert_nothing_left(prefix).await;
}

/// The task controls the screen, except while it shows a question; the requested URL is shown as
/// plain text.
#[tokio::test(flavor = "multi_thread")]
async fn task_cannot_overwrite_a_question_or_type_an_answer() {
    let prefix = "e2e-cli-ask-forged";
    let project = Project::with_prefix(prefix);
    let script = "printf 'o\\n' > /dev/stdin 2>/dev/null; printf '\\033[8m\\033(0'; \
        (until [ -e go ]; do sleep 0.1; done; echo OVER-$((40 + 2)); touch written) & \
        curl -s -o /dev/null -w 'came to %{http_code}\\n' -g --path-as-is 'https://xn--80ak6aa92e.test/a?\u{202e}%1b[2J%0a[o]nce'; wait";
    let mut terminal = Terminal::start(&project.sandbox(&[
        "run",
        "--ask",
        "--ask-timeout",
        "10m",
        "--",
        "bash",
        "-c",
        script,
    ]));
    terminal.shows("\x1b[r\x1b[999;1H");
    terminal.shows("\x1b[J");
    let shown = terminal.shows(PROMPT);
    assert!(shown.contains("GET https://xn--80ak6aa92e.test/"), "{shown:?}");
    assert!(!shown.contains('\u{202e}') && !shown.contains("\x1b["), "{shown:?}");
    // Output of the task now waits for the answer.
    project.write("go", "");
    let deadline = Instant::now() + DEADLINE;
    while !project.path().join("written").exists() {
        assert!(Instant::now() < deadline, "{:?}", terminal.rest());
        std::thread::sleep(Duration::from_millis(50));
    }
    terminal.types("\n");
    let between = terminal.shows(PROMPT);
    assert!(!between.contains("OVER"), "{between:?}");
    terminal.types("n\n");
    terminal.shows("OVER-42");
    terminal.shows("came to 403");
    assert_eq!(terminal.ends(), Some(0));
    assert_nothing_left(prefix).await;
}

/// Sends a request to the run, as `sandbox watch` does.
fn control(project: &Project, run: &str, request: &Value) -> Value {
    let folder = project.state().join("sandbox/control");
    // The length of a socket's path is limited.
    let mut stream = {
        let folder = fs::File::open(folder).expect("the folder of the sockets");
        let path = format!("/proc/self/fd/{}/{run}.sock", std::os::fd::AsRawFd::as_raw_fd(&folder));
        UnixStream::connect(path).expect("a run that can be controlled")
    };
    stream.write_all(format!("{request}\n").as_bytes()).expect("it reads");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    serde_json::from_str(&line).expect("JSON")
}

/// The first pending question of the run.
fn question(project: &Project, run: &str) -> Value {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let report = control(project, run, &json!({"command": "show"}));
        match report.pointer("/done/questions/0") {
            Some(question) => return question.clone(),
            None => assert!(Instant::now() < deadline, "{report}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn question_of_a_background_run_is_answered_on_the_control_socket() {
    let prefix = "e2e-cli-ask-background";
    let project = Project::with_prefix(prefix);
    let before = policy(&project);
    let script = requests("https://once.test/ https://run.test/ https://always.test/ https://no.test/");
    let started =
        project.output(&["run", "--ask", "--ask-timeout", "10m", "-d", "--", "bash", "-c", &script]);
    assert!(started.code == Some(0) && started.stderr.contains("sandbox watch"), "{started:?}");
    let run = started.stdout.trim_end();
    for (id, verdict) in [(1, "once"), (2, "run"), (3, "always"), (4, "no")] {
        let asked = question(&project, run);
        let expected = json!([
            id,
            "GET",
            format!("https://{verdict}.test/"),
            format!("{{host: {verdict}.test, path: /, methods: [GET]}}")
        ]);
        let part = |name| asked.get(name).cloned().unwrap_or_default();
        assert_eq!(json!([part("id"), part("method"), part("url"), part("rule")]), expected, "{asked}");
        let decide = json!({"command": "decide", "question": id, "verdict": verdict});
        let answer = control(&project, run, &decide);
        assert!(answer.get("done").is_some(), "{answer}");
        if verdict != "no" {
            let twice = control(&project, run, &decide);
            assert!(twice.get("failed").is_some(), "{twice}");
        }
    }
    wait_until_nothing_left(prefix).await;
    // Nobody was attached before, and the owner may still be about to end.
    let kept = project.output(&["attach", run]);
    let expected = "https://once.test/ came to 200\nhttps://run.test/ came to 200\n\
        https://always.test/ came to 200\nhttps://no.test/ came to 403\n";
    assert_eq!((kept.code, kept.stdout.as_str()), (Some(0), expected), "{kept:?}");
    let log = project.output(&["logs", run]).stdout;
    for line in [
        "allowed GET https://once.test/ -> 200 [question: 1]\n",
        "allowed GET https://always.test/ -> 200",
        "BLOCKED GET https://no.test/ -> 403 [question: 4] [reason: host]\n",
    ] {
        assert!(log.contains(line), "{line} is not in {log}");
    }
    assert_eq!(
        policy(&project),
        format!("{before}url_prefixes:\n  - {{host: always.test, path: /, methods: [GET]}}\n")
    );
    assert!(project.output(&["logs", run]).stdout.contains("[by: control socket]"));
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_without_an_answer_is_refused_after_the_given_time() {
    let prefix = "e2e-cli-ask-time";
    let project = Project::with_prefix(prefix);
    let script = requests("https://late.test/");
    let run = |time: &[&str]| {
        let arguments = [&["run", "--ask"], time, &["-d", "--", "bash", "-c", &script]].concat();
        let started = project.output(&arguments);
        assert_eq!(started.code, Some(0), "{started:?}");
        started.stdout.trim_end().to_owned()
    };
    let short = run(&["--ask-timeout", "1s"]);
    wait_until_nothing_left(prefix).await;
    let log = project.output(&["logs", &short]).stdout;
    assert!(log.contains("ANSWERED question 1 -> no [by: time]\n"), "{log}");
    // The control: by default and with a longer time, the question says so.
    for (time, ms) in [(&[][..], 30_000), (&["--ask-timeout", "2h"], 7_200_000)] {
        let run = run(time);
        let question = question(&project, &run);
        let at = |name: &str| question.get(name).and_then(Value::as_u64).expect("a time");
        assert_eq!(at("until_ms") - at("asked_ms"), ms);
        let no = json!({"command": "decide", "question": 1, "verdict": "no"});
        assert!(control(&project, &run, &no).get("done").is_some());
        wait_until_nothing_left(prefix).await;
    }
    assert_nothing_left(prefix).await;
}

/// The command in a new session, which has no terminal even if the tests were started from one.
fn session(project: &Project, arguments: &[&str]) -> Command {
    let command = project.sandbox(arguments);
    let mut session = Command::new("setsid");
    session.args(["--wait", "--fork"]).arg(command.get_program()).args(command.get_args());
    session.current_dir(project.path()).env("E2E_TOKEN", "hunter2");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => session.env(name, value),
            None => session.env_remove(name),
        };
    }
    session.process_group(0);
    session
}

fn without_terminal(project: &Project, arguments: &[&str]) -> Ended {
    Ended::from(session(project, arguments).output().expect("the sandbox command"))
}

#[tokio::test(flavor = "multi_thread")]
async fn ask_without_a_terminal_is_a_usage_error() {
    let project = Project::with_prefix("e2e-cli-ask-no-one");
    without_terminal(&project, &["run", "--ask", "--", "true"]).fails(2, "--ask needs a terminal");
    without_terminal(&project, &["agent", "--ask", "x"]).fails(2, "--ask needs a terminal");
    project.output(&["run", "--ask", "--audit", "--", "true"]).fails(2, "cannot be used with");
}

/// Prints a verdict that depends on the question, after it has stored question and environment.
const ANSWERER: &str = r#"question=$(cat)
printf '%s\n' "$question" >> "$1/questions"
env > "$1/env"
case "$question" in
    *'"url":"https://once.test/'*) echo '{"verdict": "once"}' ;;
    *'"url":"https://run.test/'*) echo '{"verdict": "run"}' ;;
    *'"url":"https://always.test/'*) echo '{"verdict": "always"}' ;;
    *'"url":"https://broken.test/'*) echo '{"verdict": "once"}'; exit 1 ;;
    *) echo '{"verdict": "no"}' ;;
esac
"#;

#[tokio::test(flavor = "multi_thread")]
async fn trusted_program_answers_without_a_terminal() {
    let prefix = "e2e-cli-ask-program";
    let project = Project::with_prefix(prefix);
    let host = tempfile::tempdir().expect("a folder");
    let (folder, script) = (host.path().display(), host.path().join("answer.sh"));
    fs::write(&script, ANSWERER).expect("a file");
    let ask = format!("ask: !command [sh, {}, {folder}]\n", script.display());
    project.append(".sandbox/sandbox.yaml", &ask);
    let right = format!("run `sh {} {folder}` on the host, to answer questions of --ask", script.display());
    let wary = project.wary(&["run", "--ask", "--", "true"]).output().expect("the sandbox command");
    Ended::from(wary).fails(125, &right);

    let before = policy(&project);
    let urls = "'https://once.test/$(id)' https://once.test/ https://run.test/ https://run.test/ \
        https://always.test/ https://no.test/";
    let ran = without_terminal(
        &project,
        &["run", "--ask", "--ask-timeout", "10m", "--", "bash", "-c", &requests(urls)],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let statuses: Vec<_> = ran.stdout.lines().map(|line| line.rsplit(' ').next().unwrap_or("")).collect();
    assert_eq!(statuses, ["200", "200", "200", "200", "200", "403"], "{ran:?}");
    let log = project.output(&["logs"]).stdout;
    for line in
        ["-> once [by: command]", "-> run [by: command]", "-> always [by: command]", "-> no [by: command]"]
    {
        assert!(log.contains(line), "{line} is not in {log}");
    }
    assert_eq!(
        policy(&project),
        format!("{before}url_prefixes:\n  - {{host: always.test, path: /, methods: [GET]}}\n")
    );
    let read = |name: &str| fs::read_to_string(host.path().join(name)).expect("a file");
    let asked: Vec<Value> =
        read("questions").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(asked.len(), 5, "{asked:?}");
    let hostile = asked.first().cloned().unwrap_or_default();
    assert_eq!(hostile["url"], "https://once.test/$(id)");
    assert_eq!(
        (&hostile["version"], &hostile["id"], &hostile["method"]),
        (&json!(1), &json!(1), &json!("GET"))
    );
    assert!(hostile["run"].as_str().is_some_and(|run| !run.is_empty()), "{hostile}");
    assert!(!read("env").contains("hunter2"), "{}", read("env"));

    // Without an answer of the program, others can still answer.
    let script = requests("https://broken.test/");
    let broken = ["run", "--ask", "--ask-timeout", "10m", "--", "bash", "-c", &script];
    let mut broken = session(&project, &broken);
    let mut broken =
        broken.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the sandbox command");
    let mut messages = BufReader::new(broken.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(messages.any(|line| line.contains("gave no answer: exit status: 1")));
    let asked: Value =
        read("questions").lines().last().and_then(|line| serde_json::from_str(line).ok()).expect("JSON");
    let run = asked["run"].as_str().expect("an id");
    let no = json!({"command": "decide", "question": 1, "verdict": "no"});
    assert!(control(&project, run, &no).get("done").is_some());
    drop(messages.collect::<Vec<_>>());
    let ran = broken.wait_with_output().expect("its output");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "https://broken.test/ came to 403\n", "{ran:?}");
    assert!(project.output(&["logs"]).stdout.contains("-> no [by: control socket]"));
    assert_nothing_left(prefix).await;
}
