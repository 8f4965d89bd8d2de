//! `run`: streams, exit codes, limits, signals.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::time::Instant;

use e2e_tests::DEADLINE;
use e2e_tests::engine;
use e2e_tests::setting::Setting;
use rustix::process::{Pid, Signal, kill_process};

use super::project::{Ended, Project, assert_nothing_left, wait_for_removals};

#[tokio::test(flavor = "multi_thread")]
async fn exit_code_and_streams_are_the_commands_own() {
    let ended = Project::new().run("echo out; echo err >&2; exit 77");
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(77), "out\n", "err\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn mebibyte_of_random_bytes_passes_unchanged() {
    let mut bytes = vec![0; 1 << 20];
    fs::File::open("/dev/urandom").expect("a device").read_exact(&mut bytes).expect("bytes");
    let project = Project::new();
    let mut child = project
        .sandbox(&["run", "--", "sh", "-c", "tee /dev/stderr"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the sandbox command");
    let mut stdin = child.stdin.take().expect("a pipe");
    let sent = bytes.clone();
    let sending = std::thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().expect("our own child");
    sending.join().expect("a thread").expect("a reader");
    assert!(output.status.success());
    assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
    assert!(output.stderr == bytes, "{} bytes came back on stderr", output.stderr.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn work_tree_is_the_working_directory_and_read_only_mount_is_enforced() {
    let project = Project::new();
    let data = tempfile::tempdir().expect("a folder");
    fs::write(data.path().join("given"), "given").expect("a file");
    let mount = format!("{}:/data:ro", data.path().display());
    let script = "pwd; echo made > made; cat /data/given; echo x > /data/x && echo written";
    let ended = project.output(&["run", "--mount", &mount, "--", "bash", "-c", script]);
    assert_eq!(ended.stdout, "/workspace\ngiven", "{ended:?}");
    assert_ne!(ended.code, Some(0));
    assert_eq!(fs::read_to_string(project.path().join("made")).expect("a file"), "made\n");
    assert!(!data.path().join("x").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn time_limit_exits_with_124() {
    let begun = Instant::now();
    let ended = Project::new().output(&["run", "--timeout", "2", "--", "sleep", "300"]);
    ended.fails(124, "time limit of 2 s");
    assert!(begun.elapsed() < DEADLINE);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_program_is_127_and_non_executable_file_is_126() {
    let project = Project::new();
    assert_eq!(project.output(&["run", "--", "no-such-program"]).code, Some(127));
    assert_eq!(project.output(&["run", "--", "/etc/passwd"]).code, Some(126));
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_stops_the_command_and_leaves_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let prefix = format!("e2e-cli-signal-{code}");
        let project = Project::with_prefix(&prefix);
        let (mut child, mut stdout) =
            project.start("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done");
        assert_eq!(engine::containers(&prefix).await.len(), 2, "the control: task and proxy are there");
        kill_process(Pid::from_child(&child), signal).expect("our own child");
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).expect("output");
        assert_eq!(rest, "bye\n", "it handled SIGTERM");
        assert_eq!(child.wait().expect("our own child").code(), Some(code));
        assert_nothing_left(&prefix).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_leaves_its_removal_to_another_process_and_failed_ones_to_the_next_start() {
    let prefix = "e2e-cli-removal";
    let project = Project::with_prefix(prefix);
    let socket = Setting::of_this_run().engine.strip_prefix("unix://").expect("a socket");
    let folder = tempfile::tempdir().expect("a folder");
    let [link, away] = ["engine", "away"].map(|name| folder.path().join(name));
    symlink(socket, &link).expect("a link");
    let address = format!("unix://{}", link.display());
    // The image is built, which the command that builds it cleans up itself.
    assert_eq!(project.run("true").code, Some(0));
    for (flag, is_warned) in [("--quiet", false), ("--wait", true)] {
        let run = ["run", "--engine", &address, flag, "--", "bash", "-c", "echo ready; read -r"];
        let mut command = project.sandbox(&run);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the sandbox command");
        let mut ready = [0; 6];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("output");
        // Nothing can ask the engine any more: no removal succeeds.
        fs::rename(&link, &away).expect("a link");
        child.stdin.take().expect("a pipe").write_all(b"\n").expect("a reader");
        let ended: Ended = child.wait_with_output().expect("our own child").into();
        assert_eq!((ended.code, ended.stderr.contains("objects remain")), (Some(0), is_warned), "{ended:?}");
        wait_for_removals(project.state());
        assert_eq!(engine::containers(prefix).await.len(), 2, "{flag}");
        fs::rename(&away, &link).expect("a link");
        assert_eq!(project.output_at_once(&["run", "--", "true"]).code, Some(0));
        assert_nothing_left(prefix).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removal_holds_no_stream_and_no_variable_of_its_command() {
    let prefix = "e2e-cli-removal-holds";
    let project = Project::with_prefix(prefix);
    assert_eq!(project.run("true").code, Some(0));
    let socket = Setting::of_this_run().engine.strip_prefix("unix://").expect("a socket");
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("engine");
    symlink(socket, &link).expect("a link");
    let address = format!("unix://{}", link.display());
    let inner = project.sandbox(&["run", "--engine", &address, "--", "bash", "-c", "echo ready; read -r"]);
    // With its stdout also as a file of which it does not know.
    let mut command = std::process::Command::new("bash");
    command.args(["-c", "exec 7>&1; exec \"$@\"", "bash"]).arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(project.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the sandbox command");
    let mut ready = [0; 6];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("output");
    // An engine that never answers: the removal lasts.
    fs::remove_file(&link).expect("a link");
    let silent = UnixListener::bind(&link).expect("a socket");
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("a reader");
    // Its stdout ends, although the removal runs.
    assert!(child.wait_with_output().expect("our own child").status.success());
    let (connection, removal) = loop {
        let (connection, _) = silent.accept().expect("a connection");
        let process = rustix::net::sockopt::socket_peercred(&connection).expect("its process").pid;
        let process = format!("/proc/{}", process.as_raw_pid());
        let words = fs::read_to_string(format!("{process}/cmdline")).unwrap_or_default();
        if words.split('\0').nth(1) == Some("--removal") {
            break (connection, process);
        }
    };
    // It belongs to root, so that no process of the user reads credentials.
    if !Setting::of_this_run().is_rootless() {
        assert_eq!(fs::read(format!("{removal}/environ")).expect("our own process"), b"");
    }
    drop((connection, silent));
    wait_for_removals(project.state());
    assert_eq!(engine::containers(prefix).await.len(), 2, "the control: it failed");
    assert_eq!(project.run("true").code, Some(0));
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_after_a_run_waits_for_its_removal() {
    let prefix = "e2e-cli-clean-removal";
    let project = Project::with_prefix(prefix);
    assert_eq!(project.output_at_once(&["run", "--", "true"]).code, Some(0));
    let cleaned = project.output_at_once(&["clean"]);
    assert_eq!(cleaned.code, Some(0), "{cleaned:?}");
    let left = [engine::containers(prefix).await, engine::networks(prefix).await];
    assert_eq!(left.concat(), [""; 0], "{cleaned:?}");
    assert_eq!(engine::shared_networks(prefix).await, [""; 0], "{cleaned:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_stdout_stops_the_command_and_leaves_nothing() {
    let prefix = "e2e-cli-pipe";
    let project = Project::with_prefix(prefix);
    let (mut child, stdout) = project.start("echo ready; exec yes");
    drop(stdout);
    assert_eq!(child.wait().expect("our own child").code(), Some(141));
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("output");
    assert_eq!(stderr, "");
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_input_causes_no_engine_message() {
    let project = Project::new();
    for (command, expected) in [(["true"].as_slice(), ""), (&["sh", "-c", "echo err >&2"], "err\n")] {
        let mut run = project.sandbox(&[&["run", "--"], command].concat());
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().expect("the sandbox command");
        let mut stdin = child.stdin.take().expect("a pipe");
        // More than all pipes on the path hold.
        let fed = std::thread::spawn(move || stdin.write_all(&vec![0; 3 << 20]));
        let ended = Ended::from(child.wait_with_output().expect("our own child"));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), expected), "{ended:?}");
        // The write fails if the input was not read to its end.
        drop(fed.join());
    }
}

/// The engine's monitor ends when input remains unread, while output is still in transit.
#[tokio::test(flavor = "multi_thread")]
async fn unread_input_loses_no_output() {
    const OUTPUT: usize = 8_000_000;
    let project = Project::new();
    for _ in 0..4 {
        let mut run = project.sandbox(&["run", "--", "head", "-c", &OUTPUT.to_string(), "/dev/zero"]);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().expect("the sandbox command");
        let mut stdin = child.stdin.take().expect("a pipe");
        let fed = std::thread::spawn(move || stdin.write_all(&vec![0; 3 << 20]));
        let ended = Ended::from(child.wait_with_output().expect("our own child"));
        assert_eq!((ended.code, ended.stdout.len(), ended.stderr.as_str()), (Some(0), OUTPUT, ""));
        // The write fails, since the input was not read.
        drop(fed.join());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_of_one_project_work_concurrently() {
    let project = Project::new();
    // Each run waits for the other.
    let (mut first, mut first_out) =
        project.start("echo ready; until [ -e b ]; do sleep 0.1; done; echo a; curl -s https://open.test/a");
    let second = project.run("touch b; echo b; curl -s https://open.test/b");
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), "b\nhello from open.test\n"), "{second:?}");
    let mut rest = String::new();
    first_out.read_to_string(&mut rest).expect("output");
    assert_eq!(rest, "a\nhello from open.test\n", "the end of the other run does not affect it");
    assert!(first.wait().expect("our own child").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn task_cannot_write_the_allowlist_of_its_next_run() {
    let project = Project::new();
    let script = "echo control > beside; echo 'domains: [\"*\"]' > .sandbox/network-allowlist.yaml || echo refused; \
         rm -rf .sandbox 2>/dev/null || echo kept; mv .sandbox away 2>/dev/null || echo stays";
    let ended = project.run(script);
    assert_eq!(ended.stdout, "refused\nkept\nstays\n", "{ended:?}");
    let read = |name: &str| fs::read_to_string(project.path().join(name)).unwrap_or_default();
    assert_eq!(read("beside"), "control\n", "the control: the rest of the work tree is writable");
    assert!(!read(".sandbox/network-allowlist.yaml").contains('*'));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_that_was_killed_in_another_mount_namespace_is_removed_by_the_next_one() {
    let prefix = "e2e-elsewhere";
    let project = Project::with_prefix(prefix);
    let mut killed = project
        .elsewhere(&["run", "--", "bash", "-c", "echo ready; sleep 600"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the sandbox command");
    let mut line = String::new();
    BufReader::new(killed.stdout.take().expect("a pipe")).read_line(&mut line).expect("output");
    assert_eq!(line, "ready\n");
    let left = engine::containers(prefix).await;
    killed.kill().expect("our own child");
    killed.wait().expect("our own child");
    assert!(!left.is_empty(), "the control: there is something to remove");
    assert_eq!(project.run("true").code, Some(0));
    assert_nothing_left(prefix).await;
}
