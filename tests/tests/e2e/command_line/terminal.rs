//! `run -t`, `run -d`, `shell`, `attach` and `ps`, on pseudo-terminals.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use e2e_tests::{DEADLINE, engine};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

use super::project::{Ended, Project, assert_nothing_left};
use super::stand_in::{RESULT, StandIn};

/// A pseudo-terminal with a program on it.
pub(super) struct Terminal {
    master: File,
    slave: OwnedFd,
    before: Termios,
    shown: Arc<(Mutex<Vec<u8>>, Condvar)>,
    /// The length of the output that was already searched.
    seen: usize,
    child: Child,
}

impl Terminal {
    pub(super) fn start(command: &Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("our own terminal");
        unlockpt(&master).expect("our own terminal");
        let path = ptsname(&master, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(&path, flags, Mode::empty()).expect("our own terminal");
        resize(&slave, 100, 30);
        let before = tcgetattr(&slave).expect("a terminal");
        let stdio = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let mut on_it = Command::new("setsid");
        on_it.arg("--ctty").arg(command.get_program()).args(command.get_args());
        on_it.current_dir(command.get_current_dir().expect("a folder"));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => on_it.env(name, value),
                None => on_it.env_remove(name),
            };
        }
        on_it.env("TERM", "xterm-256color");
        let child = on_it.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().expect("a program");
        let master = File::from(master);
        let shown = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let (mut reader, into) = (master.try_clone().expect("a descriptor"), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                into.0.lock().expect("no panic").extend(bytes.iter().take(count));
                into.1.notify_all();
            }
        });
        Self { master, slave, before, shown, seen: 0, child }
    }

    pub(super) fn types(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("a terminal");
    }

    /// Waits until `text` appears after the last match; returns the output in between.
    #[track_caller]
    pub(super) fn shows(&mut self, text: &str) -> String {
        match self.shows_within(DEADLINE, text) {
            Ok(before) => before,
            Err(all) => panic!("{text:?} is not in {all:?}"),
        }
    }

    /// Types `line` until `text` appears, for programs that print nothing when they are ready.
    #[track_caller]
    pub(super) fn types_until(&mut self, line: &str, text: &str) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            self.types(line);
            match self.shows_within(Duration::from_millis(200), text) {
                Ok(_) => return,
                Err(all) => assert!(Instant::now() < deadline, "{text:?} is not in {all:?}"),
            }
        }
    }

    /// Like [`shows`](Self::shows) with a timeout, after which it returns the output as the error.
    fn shows_within(&mut self, time: Duration, text: &str) -> Result<String, String> {
        let mut deadline = Instant::now() + time;
        let mut ended = false;
        let mut shown = self.shown.0.lock().expect("no panic");
        loop {
            // After the program has ended, only output in transit can still arrive.
            if !ended && matches!(self.child.try_wait(), Ok(Some(_))) {
                ended = true;
                deadline = deadline.min(Instant::now() + Duration::from_secs(10));
            }
            let rest = shown.get(self.seen..).unwrap_or_default();
            if let Some(at) = rest.windows(text.len()).position(|window| window == text.as_bytes()) {
                let before = String::from_utf8_lossy(rest.get(..at).unwrap_or_default()).into_owned();
                self.seen += at + text.len();
                return Ok(before);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(String::from_utf8_lossy(rest).into_owned());
            }
            let turn = left.min(Duration::from_millis(500));
            shown = self.shown.1.wait_timeout(shown, turn).expect("no panic").0;
        }
    }

    /// The output after the last match.
    pub(super) fn rest(&self) -> String {
        let shown = self.shown.0.lock().expect("no panic");
        String::from_utf8_lossy(shown.get(self.seen..).unwrap_or_default()).into_owned()
    }

    pub(super) fn resize(&self, columns: u16, rows: u16) {
        resize(&self.slave, columns, rows);
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our own child");
    }

    /// Waits for the program to end, asserts that the terminal is restored, and returns the exit
    /// code.
    #[track_caller]
    pub(super) fn ends(&mut self) -> Option<i32> {
        let deadline = Instant::now() + DEADLINE;
        let code = loop {
            match self.child.try_wait().expect("our own child") {
                Some(status) => break status.code(),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
            let shown = self.rest();
            assert!(Instant::now() < deadline, "it still runs: {shown:?}");
        };
        let after = tcgetattr(&self.slave).expect("a terminal");
        let modes = |termios: &Termios| {
            (termios.input_modes, termios.output_modes, termios.control_modes, termios.local_modes)
        };
        assert_eq!(modes(&after), modes(&self.before), "the terminal is restored");
        code
    }
}

fn resize(slave: &OwnedFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(slave, size).expect("a terminal");
}

fn runs(project: &Project) -> Vec<Value> {
    let list = project.output(&["ps", "--output", "json"]).json();
    list.get("runs").and_then(Value::as_array).expect("a list").clone()
}

fn text(run: &Value, name: &str) -> String {
    run.get(name).and_then(Value::as_str).expect("a text").to_owned()
}

/// The states of all runs.
fn states(project: &Project) -> Vec<String> {
    runs(project).iter().map(|run| text(run, "state")).collect()
}

/// The id of the only run, and the process id of its owner.
#[track_caller]
fn only_run(project: &Project) -> (String, u32) {
    let runs = runs(project);
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    let pid = run.get("pid").and_then(Value::as_u64).and_then(|pid| pid.try_into().ok());
    (text(run, "id"), pid.expect("a number"))
}

/// Waits until the owner of a detached run has removed everything.
pub(super) async fn wait_until_nothing_left(prefix: &str) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let left = [engine::containers(prefix).await, engine::networks(prefix).await].concat();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{left:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::KILL).expect("a process of the test");
}

const SHELL: [&str; 8] = ["run", "-t", "--", "env", "PS1=$ ", "bash", "--norc", "--noediting"];

#[tokio::test(flavor = "multi_thread")]
async fn command_on_a_terminal_gets_its_size_and_keys() {
    let prefix = "e2e-cli-tty";
    let project = Project::with_prefix(prefix);
    let mut terminal = Terminal::start(&project.sandbox(&SHELL));
    terminal.shows("$ ");
    terminal.types("stty size; tty; echo $TERM\n");
    assert!(terminal.shows("30 100").contains("stty size"), "it echoes");
    terminal.shows("/dev/pts/");
    terminal.shows("xterm-256color");
    terminal.shows("$ ");
    terminal.types("trap 'echo resized $(stty size)' WINCH\n");
    terminal.shows("$ ");
    // The shell runs the trap after the next command, and the size is sent separately from the
    // keys.
    let deadline = Instant::now() + DEADLINE;
    loop {
        terminal.resize(122, 45);
        terminal.resize(123, 45);
        terminal.types("true\n");
        match terminal.shows_within(Duration::from_secs(1), "resized 45 123") {
            Ok(_) => break,
            Err(all) => assert!(Instant::now() < deadline, "{all:?}"),
        }
    }
    // The child has the terminal, even before it sleeps.
    terminal.types("sh -c 'echo begun-$((1 + 1)); exec sleep 1000'\n");
    terminal.shows("begun-2");
    terminal.types("\x03");
    terminal.shows("^C");
    terminal.shows("$ ");
    let (id, _) = only_run(&project);
    terminal.types("printf '\\033[?1049h\\033[?25l\\033[?2004h'; exit 7\n");
    terminal.shows("\x1b[?2004h");
    assert_eq!(terminal.ends(), Some(7));
    terminal.shows("\x1b[?25h\x1b[?1049l\x1b[?2004l");
    // Showing the kept output resets the modes as well.
    let mut kept = Terminal::start(&project.sandbox(&["attach", &id]));
    assert_eq!(kept.ends(), Some(7));
    kept.shows("\x1b[?2004h");
    kept.shows("\x1b[?25h\x1b[?1049l\x1b[?2004l");
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn detach_keys_of_the_engine_reach_the_program() {
    let prefix = "e2e-cli-keys";
    let project = Project::with_prefix(prefix);
    let [run, rest @ ..] = SHELL;
    let arguments = [&[run, "--detach-keys", "ctrl-x,x"][..], &rest].concat();
    let mut terminal = Terminal::start(&project.sandbox(&arguments));
    terminal.shows("$ ");
    terminal.types("\x10\x11\x15");
    terminal.types("echo still-$((1 + 1))\n");
    terminal.shows("still-2");
    terminal.types("\x18x");
    assert_eq!(terminal.ends(), Some(0));
    terminal.shows("continues");
    assert_eq!(project.output(&["stop"]).code, Some(0));
    wait_until_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_terminal_program_or_image_is_reported() {
    let project = Project::with_prefix("e2e-cli-no-tty");
    project.output(&["run", "-t", "--", "true"]).fails(2, "stdin and stdout must be a terminal");
    project.output(&["shell"]).fails(2, "stdin and stdout must be a terminal");
    let mut terminal = Terminal::start(&project.sandbox(&["run", "-t", "--", "no-such-program"]));
    assert_eq!(terminal.ends(), Some(127));
    terminal.shows("no-such-program");
    let missing = ["run", "-d", "--image", "localhost/no-such-image:1", "--", "true"];
    project.output(&missing).fails(125, "localhost/no-such-image:1");
    project.output(&["attach"]).fails(125, "no run is in progress");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_a_program_that_ends_at_once_is_complete() {
    let project = Project::new();
    for _ in 0..3 {
        let mut terminal =
            Terminal::start(&project.sandbox(&["run", "-t", "--", "sh", "-c", "echo out; exit 3"]));
        assert_eq!(terminal.ends(), Some(3));
        terminal.shows("out\r\n");
    }
    let mut terminal = Terminal::start(&project.sandbox(&["shell"]));
    terminal.types("exit 4\n");
    assert_eq!(terminal.ends(), Some(4));
    // More output than is kept; none of it may be lost.
    let script = "seq 100000; echo the end";
    let mut terminal = Terminal::start(&project.sandbox(&["run", "-t", "--", "sh", "-c", script]));
    assert_eq!(terminal.ends(), Some(0));
    let shown = terminal.shows("the end");
    let numbers: Vec<&str> =
        shown.lines().filter(|line| line.bytes().all(|byte| byte.is_ascii_digit())).collect();
    assert_eq!(numbers.len(), 100_000, "{:?} … {:?}", numbers.first(), numbers.last());
}

#[tokio::test(flavor = "multi_thread")]
async fn detached_run_is_attached_to_again() {
    let prefix = "e2e-cli-detach";
    let project = Project::with_prefix(prefix);
    let mut first = Terminal::start(&project.sandbox(&SHELL));
    first.shows("$ ");
    let (id, _) = only_run(&project);
    first.types("word=kept; echo one-$word\n");
    first.shows("one-kept");
    first.types("\x10\x11");
    assert_eq!(first.ends(), Some(0));
    first.shows(&format!("run {id} continues"));
    assert_eq!(states(&project), ["background"]);

    let attach = project.sandbox(&["attach", id.get(..6).expect("a long id")]);
    let mut second = Terminal::start(&attach);
    second.shows("one-kept");
    second.types("echo two-$word\n");
    second.shows("two-kept");
    assert_eq!(states(&project), ["attached"]);
    // A third client watches, and its keys do nothing.
    let mut third = Terminal::start(&attach);
    third.shows("two-kept");
    third.types("echo three-$word\n");
    second.types("echo four-$word\n");
    third.shows("four-kept");
    assert!(!second.shows("four-kept").contains("three"));

    // After the typing client is killed, the other one can type. The shell restores the terminal.
    second.signal(Signal::KILL);
    second.child.wait().expect("our own child");
    third.types_until("echo five-$word\n", "five-kept");
    // Closing the terminal also detaches from the run.
    third.signal(Signal::HUP);
    assert_eq!(third.ends(), Some(129));
    assert_eq!(project.output(&["stop", &id]).stdout, format!("{id}  stopped\n"));
    wait_until_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_owner_ends_egress_and_leaves_the_terminal_usable() {
    let prefix = "e2e-cli-owner";
    let project = Project::with_prefix(prefix);
    let script = "while :; do curl -s -m 1 https://open.test/ >> log || echo refused >> log; echo tick; sleep 0.2; done";
    let mut terminal = Terminal::start(&project.sandbox(&["run", "-t", "--", "bash", "-c", script]));
    terminal.shows("tick");
    let log = || std::fs::read_to_string(project.path().join("log")).unwrap_or_default();
    let deadline = Instant::now() + DEADLINE;
    while !log().contains("hello from open.test") {
        assert!(Instant::now() < deadline, "the control: it has egress: {}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
    let (id, pid) = only_run(&project);
    kill(pid);
    assert_eq!(terminal.ends(), Some(125));
    terminal.shows(&format!("the process that owned run {id} died"));
    // Its output until then is stored.
    assert!(project.output(&["logs", "--program", &id]).stdout.contains("tick"));
    let kept = project.output(&["attach", &id]);
    assert!(kept.stdout.contains("tick"), "{kept:?}");
    kept.fails(125, "was killed: this is its output until then");
    // The program continues without egress until the next command.
    let before = log().matches("refused").count();
    while log().matches("refused").count() < before + 3 {
        assert!(Instant::now() < deadline, "{}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(log().trim_end().ends_with("refused"));
    assert!(runs(&project).is_empty());
    let waited = project.output(&["wait", &id]);
    assert_eq!((waited.code, waited.stdout), (Some(125), format!("{id}  killed\n")));
    assert_eq!(project.run("true").code, Some(0));
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_continues_after_its_client_is_killed() {
    let prefix = "e2e-cli-front";
    let project = Project::with_prefix(prefix);
    let mut terminal = Terminal::start(&project.sandbox(&SHELL));
    terminal.shows("$ ");
    terminal.signal(Signal::KILL);
    terminal.child.wait().expect("our own child");
    let (id, _) = only_run(&project);
    let mut again = Terminal::start(&project.sandbox(&["attach"]));
    again.types("echo still-$((1 + 1))\n");
    again.shows("still-2");
    again.types("exit 9\n");
    assert_eq!(again.ends(), Some(9));
    wait_until_nothing_left(prefix).await;
    // SIGTERM to the client ends the run.
    let mut stopped = Terminal::start(&project.sandbox(&SHELL));
    stopped.shows("$ ");
    stopped.signal(Signal::TERM);
    assert_eq!(stopped.ends(), Some(143));
    assert!(!project.output(&["attach", &id]).stdout.is_empty(), "its output is kept");
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_program_or_monitor_leaves_the_terminal_usable() {
    let prefix = "e2e-cli-killed";
    let project = Project::with_prefix(prefix);
    let left = "\x1b[?1049l";
    for (process, code, texts) in
        [("Pid", 137, &[left][..]), ("ConmonPid", 125, &[left, "wait for container"])]
    {
        let mut terminal = Terminal::start(&project.sandbox(&SHELL));
        terminal.shows("$ ");
        terminal.types("printf '\\033[?1049h'; echo ready-$((1 + 1))\n");
        terminal.shows("ready-2");
        kill(engine::process(prefix, "task", process).await);
        assert_eq!(terminal.ends(), Some(code), "{process}: {:?}", terminal.rest());
        for text in texts {
            terminal.shows(text);
        }
        assert_eq!(project.run("true").code, Some(0));
        assert_nothing_left(prefix).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn background_run_is_waited_for_attached_to_and_removed() {
    let prefix = "e2e-cli-background";
    let project = Project::with_prefix(prefix);
    let script = "echo out; echo err >&2; until [ -e go ]; do sleep 0.1; done; echo over; exit 5";
    let started = project.output(&["run", "-d", "--", "bash", "-c", script]);
    assert_eq!(started.code, Some(0), "{started:?}");
    let (id, pid) = only_run(&project);
    let _stop = StopOnDrop(pid);
    assert_eq!((started.stdout.trim_end(), started.stderr.as_str()), (id.as_str(), ""), "{started:?}");
    let id = id.as_str();
    project.output(&["rm", id]).fails(2, "has not ended");
    let waiting = project.sandbox(&["wait", id]).stdout(Stdio::piped()).spawn();
    let attached = project.sandbox(&["attach", id]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    project.write("go", "");
    let ended =
        Ended::from(attached.expect("the sandbox command").wait_with_output().expect("our own child"));
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(5), "out\nover\n", "err\n"));
    let waited =
        Ended::from(waiting.expect("the sandbox command").wait_with_output().expect("our own child"));
    assert_eq!((waited.code, waited.stdout), (Some(5), format!("{id}  5\n")));
    wait_until_nothing_left(prefix).await;
    let kept = project.output(&["attach", id.get(..8).expect("a long id")]);
    assert_eq!((kept.code, kept.stdout.as_str(), kept.stderr.as_str()), (Some(5), "out\nover\n", "err\n"));
    assert_eq!(project.output(&["logs", id]).code, Some(0));
    project.output(&["attach", "0123"]).fails(125, "unknown run `0123`");
    let listed = project.output(&["ps", "--all"]).stdout;
    let line = listed.lines().find(|line| line.starts_with(id)).expect("the run");
    assert!(line.contains("  exit 5  ") && line.contains("  bash -c echo out"), "{listed}");
    assert_eq!(project.output(&["rm", id]).stdout, format!("{id}\n"));
    project.output(&["attach", id]).fails(125, "unknown run");
    assert!(!project.output(&["ps", "--all"]).stdout.contains(id));
    assert_nothing_left(prefix).await;
}

/// Ends the owner of a run, even if the test fails: the run would slow all other tests down.
struct StopOnDrop(u32);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.0).ok().and_then(Pid::from_raw) {
            // Fails if the test passed: the owner has ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_terminal_output_is_bounded_and_the_run_answers() {
    let prefix = "e2e-cli-flood";
    let project = Project::with_prefix(prefix);
    let started =
        project.output(&["run", "-t", "-d", "--", "bash", "-c", "trap 'echo bye; exit 6' USR1; yes & wait"]);
    let id = started.stdout.trim_end().to_owned();
    let (_, pid) = only_run(&project);
    let _stop = StopOnDrop(pid);
    // The typing client is stopped: only the program waits for it.
    let mut stopped = Terminal::start(&project.sandbox(&["attach", &id]));
    stopped.shows("y\r\ny\r\n");
    let mut watching = Terminal::start(&project.sandbox(&["attach", &id]));
    watching.shows("y\r\ny\r\n");
    stopped.signal(Signal::STOP);
    assert_eq!(runs(&project).len(), 1, "the run answers");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the owner");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kibibytes: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kibibytes < 200 * 1024, "{resident}");
    assert_eq!(project.output(&["stop", &id]).stdout, format!("{id}  stopped\n"));
    assert_eq!(watching.ends(), Some(143));
    stopped.signal(Signal::KILL);
    wait_until_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_clients_are_refused_and_the_run_answers() {
    let prefix = "e2e-cli-many";
    let project = Project::with_prefix(prefix);
    let started = project.output(&["run", "-t", "-d", "--", "sleep", "1000"]);
    let id = started.stdout.trim_end().to_owned();
    let _stop = StopOnDrop(only_run(&project).1);
    let attach = project.sandbox(&["attach", &id]);
    let mut many: Vec<_> = (0..80)
        .map(|_| {
            let mut one = Command::new(attach.get_program());
            one.args(attach.get_args()).current_dir(project.path()).stdin(Stdio::null());
            one.env("XDG_STATE_HOME", project.state()).stdout(Stdio::null()).stderr(Stdio::piped());
            one.spawn().expect("the sandbox command")
        })
        .collect();
    // A busy machine is slow to start so many programs.
    let deadline = Instant::now() + 3 * DEADLINE;
    while !many.iter_mut().any(|one| one.try_wait().expect("our own child").is_some()) {
        assert!(Instant::now() < deadline, "no client was refused");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(project.output(&["stop", &id]).stdout, format!("{id}  stopped\n"));
    let mut refused = 0;
    for one in many {
        let ended = Ended::from(one.wait_with_output().expect("our own child"));
        refused += usize::from(ended.stderr.contains("too many clients are attached"));
        assert!([Some(143), Some(125)].contains(&ended.code), "{ended:?}");
    }
    assert!(refused > 0, "the control: some clients were refused");
    wait_until_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn background_agent_answers_an_attached_client() {
    let prefix = "e2e-cli-agent-d";
    let project = Project::with_prefix(prefix);
    let agent =
        StandIn::new(&format!("cat > /dev/null; until [ -e go ]; do sleep 0.1; done; echo '{RESULT}'"));
    let started = project.output(&agent.arguments(&["-d", "--workspace", "direct"]));
    assert_eq!((started.code, started.stderr.as_str()), (Some(0), ""), "{started:?}");
    let id = started.stdout.trim_end().to_owned();
    assert_eq!(states(&project), ["background"]);
    project.write("go", "");
    let attached = project.output(&["attach", &id]);
    assert!(attached.code == Some(0) && attached.stdout.ends_with("hi\n"), "{attached:?}");
    wait_until_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_on_a_terminal_shows_progress_and_blocked_hosts() {
    let project = Project::new();
    let tool = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]}}"#;
    let agent = StandIn::new(&format!(
        "cat > /dev/null; echo '{tool}'; until [ -e go ]; do sleep 0.1; done; curl -s http://evil.example/ > /dev/null; echo '{RESULT}'"
    ));
    let mut command = project.sandbox(&agent.arguments(&["--workspace", "direct"]));
    let mut terminal = Terminal::start(command.env("NO_COLOR", "1"));
    terminal.shows(" waiting for the API");
    terminal.shows("\r\x1b[K> Bash");
    terminal.shows(" Bash");
    project.write("go", "");
    terminal.shows("\r\x1b[Kdone");
    terminal.shows("evil.example was blocked; to allow it: sandbox allowlist allow evil.example\r\n");
    assert_eq!(terminal.ends(), Some(0), "{:?}", terminal.rest());
}

#[tokio::test(flavor = "multi_thread")]
async fn command_on_a_terminal_reports_blocked_hosts() {
    let project = Project::new();
    let mut command =
        project.sandbox(&["run", "--", "sh", "-c", "curl -s http://evil.example/ > /dev/null; echo end"]);
    let mut terminal = Terminal::start(command.env("NO_COLOR", "1"));
    terminal.shows("end\r\n");
    terminal.shows("evil.example was blocked; to allow it: sandbox allowlist allow evil.example\r\n");
    assert_eq!(terminal.ends(), Some(0), "{:?}", terminal.rest());
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_terminal_sequences_of_a_task_are_removed() {
    let project = Project::new();
    let hostile = [
        "\x1b[c",
        "\x1b[6n",
        "\x1b[21t",
        "\x1b]52;c;ZXZpbA==\x07",
        "\x1b]8;;file:///x\x1b\\",
        "\x1bP$qm\x1b\\",
    ];
    let script = format!("printf '%s' '{}'; printf '\\033[31mend\\n'", hostile.concat());
    for before in [&["run", "--"][..], &["run", "-t", "--"], &["exec", "--"]] {
        for raw in [false, true] {
            let mut arguments = before.to_vec();
            arguments.extend(["sh", "-c", &script]);
            if raw {
                arguments.insert(0, "--raw-terminal");
            }
            let mut command = project.sandbox(&arguments);
            let mut terminal = Terminal::start(command.env("NO_COLOR", "1"));
            let drawn = terminal.shows("\x1b[31mend");
            for sequence in hostile {
                assert_eq!(drawn.contains(sequence), raw, "{arguments:?}: {drawn:?}");
            }
            assert_eq!(terminal.ends(), Some(0), "{:?}", terminal.rest());
        }
    }
}
