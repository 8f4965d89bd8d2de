//! `watch`, driven in tmux.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use rustix::process::Signal;

use super::control::Run;
use super::project::{Project, assert_nothing_left};
use super::terminal::wait_until_nothing_left;
use super::tmux::Tmux;

/// Runs each line of stdin, and prints the statuses of its requests on one line.
const SCRIPT: &str = "#!/bin/bash\necho sockets\n\
    status() { for url; do curl -g -s -o /dev/null -w '%{http_code} ' \"$url\"; done; }\n\
    while read -r line; do eval \"$line\"; echo; done\n";
/// The name of a program, with sequences that set the terminal's title, colour and text direction.
const PROGRAM: &str = "\u{1b}]0;title\u{7}\u{1b}[31m\u{202e}x";

fn start(project: &Project) -> Run {
    start_with(project, &[])
}

fn start_with(project: &Project, flags: &[&str]) -> Run {
    project.write(PROGRAM, SCRIPT);
    let program = project.path().join(PROGRAM);
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("our own file");
    let command = ["--workspace", "direct", "--", &format!("./{PROGRAM}")];
    Run::spawn(project.sandbox(&[&["run"], flags, &command].concat()))
}

fn allowlist(project: &Project) -> String {
    let path: PathBuf = project.path().join(".sandbox/network-allowlist.yaml");
    fs::read_to_string(path).expect("the allowlist")
}

#[tokio::test(flavor = "multi_thread")]
async fn watched_requests_are_allowed_by_a_key() {
    let prefix = "e2e-cli-watch";
    let project = Project::with_prefix(prefix);
    project.output(&["watch"]).fails(2, "`sandbox logs --follow`");
    let mut run = start(&project);
    let tmux = Tmux::start(&project.sandbox(&["watch"]), 80, 24);
    tmux.shows("nothing yet");
    assert_eq!(run.ask("status https://open.test/hello https://shut.test/steal"), "200 403");
    tmux.shows_all(&[
        "✗ GET     https://shut.test/steal",
        "✓ GET     https://open.test/hello",
        "1 passed  1 blocked",
        "● up",
        "shut.test is not allowed: to allow it, add",
        r"./\u{1b}]0;t",
    ]);

    // Only `y` allows the request, and adds the rule on the screen.
    for (number, (answer, status)) in [("n", "403"), ("Enter", "403"), ("y", "200")].into_iter().enumerate() {
        let url = format!("https://shut.test/{number}");
        assert_eq!(run.ask(&format!("status {url}")), "403");
        tmux.shows(&format!("✗ GET     {url}"));
        tmux.types(&["a"]);
        tmux.shows(&format!("+ {{host: shut.test, path: /{number}, methods: [GET]}}"));
        tmux.answers(answer, if answer == "y" { "allowed: {host: shut.test" } else { "nothing was changed" });
        assert_eq!(run.ask(&format!("status {url}")), status);
    }
    assert_eq!(run.ask("status https://shut.test/other"), "403");
    assert_eq!(allowlist(&project), "domains: [open.test, api.anthropic.com]\n");
    tmux.shows("✗ GET     https://shut.test/other");
    // The whole host is allowed, also in the project's file.
    tmux.types(&["A"]);
    tmux.shows("1 of 2");
    tmux.types(&["Down"]);
    tmux.shows("│ + shut.test ");
    tmux.answers("y", "allowed: shut.test; in .sandbox/network-allowlist.yaml too");
    assert_eq!(run.ask("status https://shut.test/more"), "200");
    assert_eq!(allowlist(&project), "domains: [open.test, api.anthropic.com, shut.test]\n");
    tmux.shows("✓ GET     https://shut.test/more");
    tmux.types_until("D", "deny: {host: shut.test, path: /more, methods: [GET]}");
    tmux.types(&["Down"]);
    tmux.shows("│ deny: shut.test ");
    tmux.answers("y", "denied: shut.test; in .sandbox/network-allowlist.yaml too");
    assert_eq!(run.ask("status https://shut.test/more"), "403");
    assert_eq!(
        allowlist(&project),
        "domains: [open.test, api.anthropic.com, shut.test]\ndeny:\n  - shut.test\n"
    );

    tmux.types(&["Q"]);
    tmux.shows("Cut this run off from the network?");
    tmux.answers("y", "✗ quarantine");
    assert_eq!(run.ask("status https://open.test/"), "403");
    tmux.types(&["s"]);
    tmux.shows("Stop this run?");
    tmux.answers("y", "■ ended");
    assert_eq!(run.end().code, Some(143));
    tmux.types(&["q"]);
    tmux.ends(0);
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn change_with_the_file_is_made_in_the_file_of_the_run() {
    let prefix = "e2e-cli-watch-file";
    let project = Project::with_prefix(prefix);
    let elsewhere = project.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    for name in ["sandbox.yaml", "roots.pem", "network-allowlist.yaml"] {
        fs::copy(project.path().join(".sandbox").join(name), elsewhere.join(name)).expect("a file");
    }
    project.write("other.yaml", "domains: [open.test]\n");
    let before = allowlist(&project);
    for (flags, file) in [
        (["--config", "elsewhere"], "elsewhere/network-allowlist.yaml"),
        (["--allowlist", "other.yaml"], "other.yaml"),
    ] {
        let mut run = start_with(&project, &flags);
        let tmux = Tmux::start(&project.sandbox(&["watch"]), 140, 24);
        assert_eq!(run.ask("status https://shut.test/"), "403");
        tmux.shows("✗ GET     https://shut.test/");
        tmux.types_until("A", "+ {host: shut.test, path: /, methods: [GET]}");
        tmux.answers("y", &format!("in {file} too"));
        assert_eq!(run.ask("status https://shut.test/"), "200");
        let changed = fs::read_to_string(project.path().join(file)).expect("the file");
        assert!(changed.contains("host: shut.test"), "{changed}");
        tmux.types(&["q"]);
        tmux.ends(0);
        assert_eq!(run.end().code, Some(0));
    }
    // The project's own file is used where no flag names another, as in the tests above.
    assert_eq!(allowlist(&project), before);
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_call_of_an_agent_is_shown_while_it_runs() {
    let project = super::agent::project();
    let prompt = "scenario:tool-use\ncommand: until [ -e go ]; do sleep 0.1; done";
    let run = super::agent::agent(&project, &["-d", "--workspace", "direct", prompt]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let tmux = Tmux::start(&project.sandbox(&["watch", run.stdout.trim_end()]), 130, 32);
    tmux.shows("TOOL    Bash until [ -e go ]; do sleep 0.1; done");
    project.write("go", "");
    tmux.shows("■ ended");
    tmux.types(&["q"]);
    tmux.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_request_is_answered_by_a_key() {
    let prefix = "e2e-cli-watch-ask";
    let project = Project::with_prefix(prefix);
    let curl = |url: &str| {
        let script = format!("curl -s -o /dev/null -w 'came to %{{http_code}}\\n' {url}");
        let started =
            project.output(&["run", "--ask", "--ask-timeout", "10m", "-d", "--", "sh", "-c", &script]);
        assert_eq!(started.code, Some(0), "{started:?}");
        started.stdout.trim_end().to_owned()
    };
    let tmux = Tmux::start(&project.sandbox(&["watch"]), 80, 24);
    tmux.shows("no run is in progress");
    for (key, url, verdict, line) in [
        ("1", "https://once.test/x", "once", "allowed GET https://once.test/x -> 200"),
        ("2", "https://run.test/x", "run", "allowed GET https://run.test/x -> 200"),
        ("3", "https://always.test/x", "always", "allowed GET https://always.test/x -> 200"),
        ("4", "https://no.test/x", "no", "BLOCKED GET https://no.test/x -> 403"),
    ] {
        let run = curl(url);
        tmux.shows("? A request waits for an answer");
        tmux.shows(&format!("GET {url}"));
        match key {
            "1" => {
                tmux.answers("1", "Let this request pass, once?");
                tmux.shows("│ once.test ");
                tmux.answers("y", "no run is in progress");
            }
            "2" | "3" => {
                tmux.answers(key, &format!("│ + {{host: {verdict}.test, path: /x, methods: [GET]}}"));
                tmux.answers("y", "no run is in progress");
            }
            _ => tmux.answers(key, "no run is in progress"),
        }
        wait_until_nothing_left(prefix).await;
        let log = project.output(&["logs", &run]).stdout;
        assert!(log.contains(line) && log.contains(&format!("-> {verdict} [by: control socket]")), "{log}");
    }
    let rule = "url_prefixes:\n  - {host: always.test, path: /x, methods: [GET]}\n";
    assert!(allowlist(&project).ends_with(rule), "{}", allowlist(&project));
    tmux.types(&["q"]);
    tmux.ends(0);
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_do_not_affect_the_terminal() {
    // A separate state folder: the view shows the newest run in it.
    let project = Project::with_prefix("e2e-cli-watch-hostile");
    let mut run = start(&project);
    let tmux = Tmux::start(&project.sandbox(&["watch"]), 120, 30);
    tmux.shows("nothing yet");
    let long = "x".repeat(6000);
    let raw = r"exec 3<>/dev/tcp/open.test/80; printf 'GET /\e]0;owned\a\e[2J\e[31m\xe2\x80\xae\xe2\x80\x8b<script> HTTP/1.1\r\nHost: open.test\r\n\r\n' >&3; head -c 12 <&3";
    assert!(run.ask(raw).contains("403"), "the URL is invalid");
    run.ask(&format!("status 'https://shut.test/%1b[2J<b>' https://shut.test/{long} https://open.test/"));
    for (columns, rows) in [(120, 30), (200, 60), (80, 24)] {
        tmux.resize(columns, rows);
        // The view as drawn for this width, not what the terminal made of the former one.
        let drawn = |screen: &str| {
            let is_rule =
                |line: &str| line.starts_with("── Requests") && line.chars().count() == usize::from(columns);
            screen.starts_with(" sandbox watch") && screen.lines().any(is_rule)
        };
        let deadline = Instant::now() + DEADLINE;
        while !drawn(&tmux.screen()) {
            assert!(Instant::now() < deadline, "{}", tmux.screen());
            std::thread::sleep(Duration::from_millis(50));
        }
        let screen = tmux.shows_all(&[
            "✓ GET     https://open.test/",
            "https://shut.test/%1b[2J<b>",
            "https://shut.test/xxxxxxxxxx",
            "…",
            r"http://open.test/\x1b]0;owned",
        ]);
        assert!(screen.lines().next().is_some_and(|line| line.starts_with(" sandbox watch")), "{screen}");
        assert!(!screen.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{screen:?}");
    }
    for title in ["owned", "title"] {
        assert!(!tmux.ask(&["display-message", "-p", "#{pane_title}"]).contains(title));
    }
    // The control: the same sequence sets the title of another terminal.
    let control = Tmux::with(
        Command::new("true").current_dir("/"),
        80,
        24,
        &["sh", "-c", r"printf '\033]0;owned\007'; exec sleep 1000"],
    );
    let deadline = Instant::now() + DEADLINE;
    while !control.ask(&["display-message", "-p", "#{pane_title}"]).contains("owned") {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    }
    tmux.types(&["q"]);
    tmux.ends(0);
    assert_eq!(run.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_is_restored_on_every_exit() {
    let project = Project::with_prefix("e2e-cli-watch-end");
    let mut watch = project.sandbox(&["watch"]);
    watch.env("RUST_BACKTRACE", "0");
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let tmux = Tmux::start(&watch, 80, 24);
        tmux.shows("no run is in progress");
        tmux.signal(signal);
        tmux.ends(code);
    }
    let tmux = Tmux::start(&watch, 80, 24);
    tmux.shows("no run is in progress");
    tmux.types(&["C-c"]);
    tmux.ends(130);
    let tmux = Tmux::start(&watch, 80, 24);
    tmux.shows("no run is in progress");
    tmux.signal(Signal::USR1);
    let screen = tmux.ends(125);
    assert!(screen.contains("panicked at") && screen.contains("the message is withheld"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn view_supports_suspend_resize_and_no_colours() {
    let project = Project::with_prefix("e2e-cli-watch-size");
    let mut watch = project.sandbox(&["watch"]);
    let colour = |screen: &str| screen.contains("\x1b[38;5;6m");
    let tmux = Tmux::with(
        &watch,
        80,
        24,
        &["bash", "-c", "set -m; \"$@\"; echo stopped; fg; exec sleep 1000", "bash"],
    );
    tmux.shows("no run is in progress");
    assert!(colour(&tmux.ask(&["capture-pane", "-p", "-e"])), "the control");
    tmux.resize(40, 10);
    tmux.shows("too small: needs 50 x 12");
    tmux.resize(100, 30);
    tmux.shows("no run is in progress");
    for suspend in ["C-z", ""] {
        let tmux = Tmux::with(
            &watch,
            80,
            24,
            &["bash", "-c", "set -m; \"$@\"; echo stopped; read -r; fg; exec sleep 1000", "bash"],
        );
        tmux.shows("no run is in progress");
        if suspend.is_empty() {
            tmux.signal(Signal::TSTP);
        } else {
            tmux.types(&[suspend]);
        }
        let screen = tmux.shows("stopped");
        assert!(!screen.contains("no run is in progress"), "{screen}");
        tmux.types(&["Enter"]);
        tmux.shows("no run is in progress");
        tmux.types(&["?"]);
        tmux.shows("any key goes back");
    }
    watch.env("NO_COLOR", "1");
    let tmux = Tmux::with(&watch, 80, 24, &["sh", "-c", "exec \"$@\"", "sh"]);
    tmux.shows("no run is in progress");
    assert!(!colour(&tmux.ask(&["capture-pane", "-p", "-e"])));
}
