//! A terminal whose picture can be read.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A tmux terminal with a shell that runs the command.
pub(super) struct Tmux {
    folder: TempDir,
}

impl Tmux {
    /// Runs the command, and prints its exit code and whether the terminal has its former modes.
    pub(super) fn start(command: &Command, columns: u16, rows: u16) -> Self {
        // The first line has the size.
        let script = "modes() { stty -a | sed 1d; }; before=$(modes); echo before; \"$@\"; echo code=$?; \
                      [ \"$before\" = \"$(modes)\" ] && echo restored; exec sleep 1000";
        Self::with(command, columns, rows, &["sh", "-c", script, "sh"])
    }

    pub(super) fn with(command: &Command, columns: u16, rows: u16, wrapper: &[&str]) -> Self {
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

    pub(super) fn ask(&self, arguments: &[&str]) -> String {
        let output = self.command().args(arguments).output().expect("tmux");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    pub(super) fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    pub(super) fn types(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    /// Answers a question until the screen has `text`. The view ignores answers until the question
    /// has been shown for half a second.
    #[track_caller]
    pub(super) fn answers(&self, key: &str, text: &str) {
        std::thread::sleep(Duration::from_millis(600));
        self.types_until(key, text);
    }

    /// Types a key until the screen has `text`: the view's policy may be a second old.
    #[track_caller]
    pub(super) fn types_until(&self, key: &str, text: &str) {
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

    pub(super) fn resize(&self, columns: u16, rows: u16) {
        self.ask(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// Waits until the screen has `text`; returns all of the screen.
    #[track_caller]
    pub(super) fn shows(&self, text: &str) -> String {
        self.shows_all(&[text])
    }

    /// Waits until the screen has all of `texts` at once: tmux may have read only part of the
    /// view's output.
    #[track_caller]
    pub(super) fn shows_all(&self, texts: &[&str]) -> String {
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

    /// Waits until the screen has nothing else.
    #[track_caller]
    pub(super) fn shows_only(&self, text: &str) {
        let deadline = Instant::now() + DEADLINE;
        while self.screen().trim_end() != text.trim_end() {
            assert!(Instant::now() < deadline, "{}", self.screen());
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

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(self.child(), signal).expect("the test's own process");
    }

    /// Waits for the end with this exit code, and asserts that the terminal is restored.
    #[track_caller]
    pub(super) fn ends(&self, code: u8) -> String {
        let screen = self.shows("restored");
        assert!(
            screen.starts_with("before\n") && screen.contains(&format!("\ncode={code}\nrestored\n")),
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
