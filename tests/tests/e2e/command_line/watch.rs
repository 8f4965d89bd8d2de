//! `watch`, driven in tmux.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::control::Run;
use super::project::{Project, assert_nothing_left};
use super::terminal::wait_until_nothing_left;

/// Runs each line of stdin, and prints the statuses of its requests on one line.
const SCRIPT: &str = "#!/bin/bash\necho sockets\n\
    status() { for url; do curl -g -s -o /dev/null -w '%{http_code} ' \"$url\"; done; }\n\
    while read -r line; do eval \"$line\"; echo; done\n";
/// The name of a program, with sequences that set the terminal's title, colour and text direction.
const PROGRAM: &str = "\u{1b}]0;title\u{7}\u{1b}[31m\u{202e}x";

/// A tmux terminal with a shell that runs the command.
struct Tmux {
    folder: TempDir,
}

impl Tmux {
    /// Runs the command, and prints its exit code and whether the terminal is in canonical mode.
    fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let script = "echo before; \"$@\"; echo code=$?; stty -a | grep -o '[-]*icanon'; exec sleep 1000";
        Self::with(command, columns, rows, &["sh", "-c", script, "sh"])
    }

    fn with(command: &Command, columns: u16, rows: u16, wrapper: &[&str]) -> Self {
        let tmux = Self { folder: tempfile::tempdir().expect("a folder") };
        let mut start = tmux.command();
        start.args(["new-session", "-d", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        start.arg("-c").arg(command.get_current_dir().expect("a folder")).args(["env", "-u", "NO_COLOR"]);
        // Removed variables must precede those that are set.
        for (name, _) in command.get_envs().filter(|(_, value)| value.is_none()) {
            start.arg("-u").arg(name);
        }
        for (name, value) in command.get_envs() {
            let text = |text: &OsStr| text.to_str().expect("a text").to_owned();
            start.args(value.map(|value| format!("{}={}", text(name), text(value))));
        }
        start.args(wrapper).arg(command.get_program()).args(command.get_args());
        assert!(start.status().expect("tmux").success());
        tmux
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.path().join("socket")).args(["-u", "-f", "/dev/null"]);
        command
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let output = self.command().args(arguments).output().expect("tmux");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    fn types(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    /// Answers a question until the screen has `text`. The view ignores answers until the question
    /// has been shown for half a second.
    #[track_caller]
    fn answers(&self, key: &str, text: &str) {
        std::thread::sleep(Duration::from_millis(600));
        self.types_until(key, text);
    }

    /// Types a key until the screen has `text`: the view's policy may be a second old.
    #[track_caller]
    fn types_until(&self, key: &str, text: &str) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            self.types(&[key]);
            for _ in 0..20 {
                if self.screen().contains(text) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            assert!(Instant::now() < deadline, "{text:?} is not in\n{}", self.screen());
        }
    }

    fn resize(&self, columns: u16, rows: u16) {
        self.ask(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// Waits until the screen has `text`; returns all of the screen.
    #[track_caller]
    fn shows(&self, text: &str) -> String {
        self.shows_all(&[text])
    }

    /// Waits until the screen has all of `texts` at once: tmux may have read only part of the
    /// view's output.
    #[track_caller]
    fn shows_all(&self, texts: &[&str]) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let screen = self.screen();
            let missing: Vec<_> = texts.iter().filter(|text| !screen.contains(**text)).collect();
            if missing.is_empty() {
                return screen;
            }
            assert!(Instant::now() < deadline, "{missing:?} is not in\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The process that the pane's shell waits for.
    fn child(&self) -> Pid {
        let shell = self.ask(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("a process");
        let child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        child.and_then(Pid::from_raw).expect("a child")
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.child(), signal).expect("the test's own process");
    }

    /// Waits for the end with this exit code, and asserts that the terminal is restored.
    #[track_caller]
    fn ends(&self, code: u8) -> String {
        let screen = self.shows("icanon");
        assert!(
            screen.starts_with("before\n") && screen.contains(&format!("\ncode={code}\nicanon\n")),
            "{screen}"
        );
        let state = self.ask(&["display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}"]);
        assert_eq!(state, "0 1 0\n", "the normal screen, with a cursor");
        screen
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").status();
    }
}

fn start(project: &Project) -> Run {
    project.write(PROGRAM, SCRIPT);
    let program = project.path().join(PROGRAM);
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("our own file");
    Run::spawn(project.sandbox(&["run", "--workspace", "direct", "--", &format!("./{PROGRAM}")]))
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
    tmux.types_until("D", "│ - shut.test ");
    tmux.answers("y", "removed: shut.test; in .sandbox/network-allowlist.yaml too");
    assert_eq!(run.ask("status https://shut.test/more"), "403");
    assert_eq!(allowlist(&project), "domains: [open.test, api.anthropic.com]\n");

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
async fn waiting_request_is_answered_by_a_key() {
    let prefix = "e2e-cli-watch-ask";
    let project = Project::with_prefix(prefix);
    let curl = |url: &str| {
        let script = format!("curl -s -o /dev/null -w 'came to %{{http_code}}\\n' {url}");
        let started = project.output(&["run", "--ask", "-d", "--", "sh", "-c", &script]);
        assert_eq!(started.code, Some(0), "{started:?}");
        started.stdout.trim_end().to_owned()
    };
    let tmux = Tmux::start(&project.sandbox(&["watch"]), 80, 24);
    tmux.shows("no run is in progress");
    for (key, url, verdict, line) in [
        ("1", "https://once.test/x", "once", "allowed GET https://once.test/x -> 200"),
        ("2", "https://always.test/x", "always", "allowed GET https://always.test/x -> 200"),
        ("3", "https://no.test/x", "no", "BLOCKED GET https://no.test/x -> 403"),
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
            "2" => {
                tmux.answers("2", "│ + {host: always.test, path: /x, methods: [GET]}");
                tmux.answers("y", "no run is in progress");
            }
            _ => tmux.answers("3", "no run is in progress"),
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
    let screen = tmux.shows_all(&[
        "✓ GET     https://open.test/",
        "https://shut.test/%1b[2J<b>",
        "https://shut.test/xxxxxxxxxx",
        "…",
        r"http://open.test/\x1b]0;owned\x07\x1b[2J",
    ]);
    assert!(screen.lines().next().is_some_and(|line| line.starts_with(" sandbox watch")), "{screen}");
    assert!(!screen.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{screen:?}");
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
