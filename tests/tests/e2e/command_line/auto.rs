//! `--workspace auto`: a task works on a copy whose changes are applied when it ends.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use e2e_tests::assert_held;
use e2e_tests::engine;

use super::project::{Ended, Project};

fn auto(project: &Project, script: &str) -> Ended {
    project.output(&["run", "--workspace", "auto", "--", "bash", "-c", script])
}

/// A run that has printed `ready`, and continues when a line is written to its stdin.
struct Waiting {
    child: Child,
    stdin: ChildStdin,
    /// Stays open: a command whose reader is gone ends with 141.
    stdout: BufReader<ChildStdout>,
}

impl Waiting {
    /// Runs `before`, waits, and runs `after`.
    fn start(project: &Project, before: &str, after: &str) -> Self {
        let script = format!("{before}\necho ready; read line\n{after}");
        let mut child = project
            .sandbox(&["run", "--workspace", "auto", "--", "bash", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the sandbox command");
        let stdin = child.stdin.take().expect("a pipe");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("output");
        assert_eq!(line, "ready\n");
        Self { child, stdin, stdout }
    }

    fn finish(mut self) -> Ended {
        self.stdin.write_all(b"\n").expect("a reader");
        drop(self.stdin);
        self.stdout.read_line(&mut String::new()).expect("output");
        self.child.wait_with_output().expect("our own child").into()
    }
}

fn read(project: &Project, path: &str) -> String {
    fs::read_to_string(project.path().join(path)).unwrap_or_default()
}

/// Changes that hostile code would leave, and harmless ones.
const WORK: &str = "echo fine > fine; echo two >> a; mkdir -p .vscode; echo evil > .vscode/tasks.json; mkfifo pipe; ln -s /etc/passwd out; \
                    cp /bin/true tool; chmod 6755 tool; touch $'x\\e[2J\\nwarning: forged'; python3 -c 0 2>/dev/null; rm gone";

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_an_agent_are_applied_except_withheld_ones() {
    let project = super::agent::project();
    project.write("a", "one\n");
    project.write("gone", "x\n");
    let prompt = format!("scenario:tool-use\ncommand: {WORK}");
    let ended = super::agent::agent(&project, &["--output", "json", &prompt]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!((read(&project, "fine"), read(&project, "a")), ("fine\n".to_owned(), "one\ntwo\n".to_owned()));
    let mode = fs::metadata(project.path().join("tool")).expect("a file").mode();
    assert_eq!(mode & 0o7777, 0o755, "the set-user-ID and set-group-ID bits are removed");
    for withheld in [".vscode", "pipe", "out"] {
        assert_held!(project.path().join(withheld).symlink_metadata().is_err(), "{withheld}");
    }
    assert!(!project.path().join("gone").exists());

    let workspace = &ended.json()["workspace"];
    assert_eq!(
        (&workspace["mode"], &workspace["error"], &workspace["pending"]),
        (&"auto".into(), &serde_json::Value::Null, &4.into()),
        "{workspace}"
    );
    let withheld: Vec<(&str, &str)> = workspace["withheld"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|change| Some((change["path"].as_str()?, change["withheld"].as_str()?)))
        .collect();
    let expected = [
        (".vscode", "protected"),
        (".vscode/tasks.json", "protected"),
        ("out", "leads-out"),
        ("pipe", "special"),
    ];
    assert_eq!(withheld, expected);
    assert!(
        ended.stderr.contains("warning: 4 changes are withheld:")
            && ended.stderr.contains("sandbox apply --include-protected"),
        "{ended:?}"
    );
    assert_held!(!ended.stderr.contains("\nwarning: forged"), "{ended:?}");

    // The next run sees the withheld changes, and those of the host.
    project.write("a", "by the host\n");
    let next = auto(&project, "cat .vscode/tasks.json a; echo more > more");
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "evil\nby the host\n"), "{next:?}");
    assert_eq!(read(&project, "more"), "more\n");

    let applied = project.output(&["apply", "--include-protected"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(read(&project, ".vscode/tasks.json"), "evil\n");
    assert_eq!(read(&project, "a"), "by the host\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_unprotected_direct_run_writes_everything() {
    let project = super::agent::project();
    project.write("gone", "x\n");
    let prompt = format!("scenario:tool-use\ncommand: {WORK}");
    let ended = super::agent::agent(&project, &["--workspace", "direct", "--unprotected", &prompt]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(read(&project, ".vscode/tasks.json"), "evil\n");
    for written in ["pipe", "out"] {
        assert!(project.path().join(written).symlink_metadata().is_ok(), "{written}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_failed_timed_out_and_stopped_runs_are_applied() {
    let project = Project::new();
    let ended = auto(&project, "echo x > failed; exit 3");
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(3), "1 path changed in the work tree\n"),
        "{ended:?}"
    );
    let script = ["bash", "-c", "echo x > slow; sleep 600"];
    let common = ["run", "--workspace", "auto", "--timeout", "3", "--"];
    assert_eq!(project.output(&[&common[..], &script[..]].concat()).code, Some(124));
    let stopped = Waiting::start(&project, "echo x > stopped", "sleep 600");
    let pid = i32::try_from(stopped.child.id()).expect("a process id");
    let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("our own child");
    assert_eq!(stopped.finish().code, Some(143));
    for path in ["failed", "slow", "stopped"] {
        assert_eq!(read(&project, path), "x\n", "{path}");
    }
    // A run that fails before its command starts changes nothing and leaves nothing.
    let ended = project.output(&["run", "--workspace", "auto", "--", "/no/such/program"]);
    assert_eq!(ended.code, Some(127), "{ended:?}");
    let none = project.output(&["diff"]);
    assert_eq!(none.stdout, "", "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn conflict_with_a_host_change_applies_nothing_and_loses_nothing() {
    let project = Project::new();
    for path in ["a", "b"] {
        project.write(path, "one\n");
    }
    let running = Waiting::start(&project, "echo task > a; echo task > new", "cat b");
    project.write("a", "host\n");
    project.write("b", "host\n");
    let ended = running.finish();
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(
        ended.stderr.contains("so nothing was applied: `a`")
            && ended.stderr.contains("sandbox apply --force"),
        "{ended:?}"
    );
    assert_eq!(read(&project, "a"), "host\n");
    assert!(!project.path().join("new").exists());
    let status = project.output(&["status", "--output", "json"]).json();
    assert_eq!(status["workspace_copy"]["pending"], 2, "{status}");

    // The next run waits for the user's decision.
    let refused = auto(&project, "true");
    assert_eq!(refused.code, Some(125), "{refused:?}");
    for command in ["sandbox diff", "sandbox apply", "sandbox discard"] {
        assert!(refused.stderr.contains(command), "{refused:?}");
    }
    assert_eq!(project.output(&["diff"]).stdout, "M! a\nA  new\n");
    assert_eq!(project.output(&["apply", "--force"]).code, Some(0));
    assert_eq!((read(&project, "a"), read(&project, "b")), ("task\n".to_owned(), "host\n".to_owned()));
    assert_eq!(auto(&project, "true").code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn second_run_on_a_copy_in_use_is_refused() {
    let project = Project::new();
    let running = Waiting::start(&project, "echo first > first", "true");
    let refused = auto(&project, "true");
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(
        refused.stderr.contains("is in use") && refused.stderr.contains("--workspace direct"),
        "{refused:?}"
    );
    assert_eq!(refused.stderr.matches("is in use").count(), 1, "{refused:?}");
    assert!(!refused.stderr.contains("warning:"), "{refused:?}");
    for command in ["apply", "discard"] {
        let refused = project.output(&[command]);
        assert_eq!(refused.code, Some(125), "{refused:?}");
    }
    let status = project.output(&["status", "--output", "json"]).json();
    assert_eq!(status["workspace_copy"]["in_use"], true, "{status}");
    // The control: a run on the work tree itself.
    assert_eq!(project.run("echo second > second").code, Some(0));
    assert_eq!(running.finish().code, Some(0));
    assert_eq!(
        (read(&project, "first"), read(&project, "second")),
        ("first\n".to_owned(), "second\n".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_killed_run_wait_and_apply_removes_its_container() {
    let prefix = "e2e-auto-kill";
    let project = Project::with_prefix(prefix);
    let mut running = Waiting::start(&project, "echo half > half", "true");
    running.child.kill().expect("our own child");
    running.child.wait().expect("our own child");
    assert_ne!(engine::containers(prefix).await, Vec::<String>::new(), "the control: the container exists");
    assert!(!project.path().join("half").exists());
    let status = project.output(&["status"]);
    assert!(status.stdout.contains("1 changed path, see `sandbox diff`"), "{status:?}");
    let refused = auto(&project, "true");
    refused.fails(125, "contains 1 changed path from an earlier run");

    let applied = project.output(&["apply"]);
    assert_eq!((applied.code, applied.stdout.as_str()), (Some(0), "A  half\n"), "{applied:?}");
    let containers = engine::containers(prefix).await;
    assert!(!containers.iter().any(|name| name.contains("task")), "{containers:?}");
    assert_eq!(read(&project, "half"), "half\n");
    assert_eq!(auto(&project, "cat half").stdout, "half\n");
    assert_eq!(project.output(&["clean", "--all", "--yes"]).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_on_a_terminal_applies_or_discards_earlier_changes() {
    let project = Project::new();
    assert_eq!(
        project.output(&["run", "--workspace", "copy", "--", "bash", "-c", "echo x > kept"]).code,
        Some(0)
    );
    let ask = |answer: &str| -> (Option<i32>, String) {
        let outer = project.sandbox(&["run", "--workspace", "auto", "--", "test", "-e", "kept"]);
        let mut arguments = vec![outer.get_program().to_string_lossy().into_owned()];
        arguments.extend(outer.get_args().map(|argument| argument.to_string_lossy().into_owned()));
        let mut command = project.sandbox(&[]);
        let envs: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command = std::process::Command::new("script");
        command
            .args(["-qec", &arguments.join(" "), "/dev/null"])
            .envs(envs)
            .current_dir(project.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("script, of util-linux");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(answer.as_bytes()).expect("a reader");
        drop(stdin);
        let ended = Ended::from(child.wait_with_output().expect("our own child"));
        (ended.code, ended.stdout)
    };
    let (code, shown) = ask("what?\nq\n");
    assert!(code == Some(125) && shown.contains("apply them now (a)"), "{code:?} {shown}");
    assert!(!project.path().join("kept").exists());
    let (code, shown) = ask("d\n");
    assert_eq!(code, Some(1), "the copy was discarded: {shown}");
    assert_eq!(
        project.output(&["run", "--workspace", "copy", "--", "bash", "-c", "echo x > kept"]).code,
        Some(0)
    );
    let (code, shown) = ask("a\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(read(&project, "kept"), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_is_applied_as_a_whole_without_its_hooks() {
    let project = Project::new();
    let git = |script: &str| {
        let output = std::process::Command::new("sh")
            .args(["-c", script])
            .current_dir(project.path())
            .env("HOME", project.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("a shell");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let identity = "-c user.name=e2e -c user.email=e2e@example.test";
    git(&format!("git init -q -b main . && git add . && git {identity} commit -qm first"));
    let ended = auto(
        &project,
        &format!(
            "git config --global --add safe.directory /workspace; echo x > file; cp /bin/true .git/hooks/post-commit; git add file && \
             git {identity} commit -qm second"
        ),
    );
    assert_eq!(git("git log --format=%s; git status --porcelain; git fsck --strict 2>&1"), "second\nfirst\n");
    assert_held!(!project.path().join(".git/hooks/post-commit").exists(), "the hook was applied");
    ended.fails(0, ".git/hooks/post-commit: files of this kind are not imported");
}
