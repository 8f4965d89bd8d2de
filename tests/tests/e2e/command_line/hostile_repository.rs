//! The first command in a repository of somebody else, without settings of the user for it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use e2e_tests::setting::Setting;

use super::project::Ended;
use super::zero_config::{KEY, Machine};

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, content).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own file");
}

fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git").args(arguments).current_dir(folder).status().expect("git");
    assert!(status.success(), "{arguments:?}");
}

fn shell(machine: &Machine, script: &str) -> Ended {
    machine.ended(&["run", "--", "sh", "-c", script])
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_hostile_repository_grant_no_rights() {
    let machine = Machine::new().await;
    let file = machine.path("repository/.sandbox/sandbox.yaml");
    // A variable of the user. The control: trusting the file passes it on.
    write(&file, "env: {LEAKED: !env ANTHROPIC_API_KEY}\n");
    shell(&machine, "echo $LEAKED").fails(125, "are not trusted");
    let trusting = machine.ended(&["--trust", "run", "--", "sh", "-c", "echo $LEAKED"]);
    assert_eq!(trusting.stdout, format!("{KEY}\n"), "{trusting:?}");
    // Trust in another project does not count.
    let other = machine.path("other");
    write(&other.join(".sandbox/sandbox.yaml"), "env: {LEAKED: !env ANTHROPIC_API_KEY}\n");
    let trust = machine.sandbox(&other, &["trust"]).env("ANTHROPIC_API_KEY", KEY).status();
    assert!(trust.expect("the sandbox command").success());
    fs::remove_file(&file).expect("our own file");
    symlink(other.join(".sandbox/sandbox.yaml"), &file).expect("a link");
    shell(&machine, "echo $LEAKED").fails(125, "is a symbolic link in a folder that tasks can write");
    // A pipe never ends.
    fs::remove_file(&file).expect("our own file");
    assert!(Command::new("mkfifo").arg(&file).status().expect("mkfifo").success());
    shell(&machine, "true").fails(125, "is not a regular file");
}

#[tokio::test(flavor = "multi_thread")]
async fn devcontainer_of_a_hostile_repository_runs_nothing_here() {
    let machine = Machine::new().await;
    let marker = machine.path("marker");
    let file = serde_json::json!({
        "image": Setting::of_this_run().image,
        "initializeCommand": format!("touch '{}'", marker.display()),
        "mounts": [format!("source={},target=/mine,type=bind", machine.path("config").display())],
        "runArgs": ["--privileged", "--network=host"],
    });
    write(&machine.path("repository/.devcontainer/devcontainer.json"), &file.to_string());
    shell(&machine, "true").fails(125, "are not trusted");
    let script = "ls -d /mine /dev/kmsg /workspace; ls /sys/class/net | wc -l";
    let trusting = machine.ended(&["--trust", "run", "--", "sh", "-c", script]);
    assert_eq!(
        trusting.stdout, "/workspace\n2\n",
        "no mount, no device, one interface and loopback: {trusting:?}"
    );
    assert!(trusting.stderr.contains("ignored there: initializeCommand, mounts, runArgs"), "{trusting:?}");
    assert!(!marker.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_git_folder_reaches_no_other_repository_and_runs_nothing_here() {
    let machine = Machine::new().await;
    let (repository, other, marker) =
        (machine.path("repository"), machine.path("other"), machine.path("marker"));
    fs::create_dir(&other).expect("a folder");
    git(&other, &["init", "-q"]);
    let config = || fs::read_to_string(other.join(".git/config")).expect("a file");
    let before = config();
    let script = "git config user.name Mallory; git status";
    // Its configuration names programs. The control: the host's git runs them.
    git(&repository, &["config", "core.fsmonitor", &format!("touch '{}'; false", marker.display())]);
    git(&repository, &["config", "core.hooksPath", "hooks"]);
    write(
        &repository.join("hooks/reference-transaction"),
        &format!("#!/bin/sh\ntouch '{}'\n", marker.display()),
    );
    let commit = "git -c core.fsmonitor= -c core.hooksPath=/ -c user.name=a -c user.email=a commit -q --allow-empty -m new";
    let direct = shell(&machine, commit);
    assert_eq!(direct.code, Some(0), "{direct:?}");
    let copy = machine.ended(&["run", "--workspace", "auto", "--", "sh", "-c", commit]);
    assert_eq!(copy.code, Some(0), "{copy:?}");
    assert!(!marker.exists(), "{direct:?} {copy:?}");
    let log = Command::new("git")
        .args(["-c", "core.fsmonitor=", "rev-list", "--count", "HEAD"])
        .current_dir(&repository)
        .output();
    assert_eq!(log.expect("git").stdout, b"2\n", "both commits were imported");
    git(&repository, &["status", "-s"]);
    assert!(marker.exists(), "the control");
    // `.git` leads to another repository. The control: the host's git writes there.
    fs::remove_dir_all(repository.join(".git")).expect("our own folder");
    symlink(other.join(".git"), repository.join(".git")).expect("a link");
    assert_ne!(shell(&machine, script).code, Some(0));
    assert_eq!(config(), before);
    fs::remove_file(repository.join(".git")).expect("our own link");
    write(&repository.join(".git"), &format!("gitdir: {}\n", other.join(".git").display()));
    shell(&machine, script).fails(125, "which is not that of a linked work tree");
    assert_eq!(config(), before);
    git(&repository, &["config", "user.name", "Mallory"]);
    assert_ne!(config(), before, "the control");
}

#[tokio::test(flavor = "multi_thread")]
async fn program_in_a_hostile_repository_is_not_run_as_the_agent() {
    let machine = Machine::new().await;
    let bin = machine.path("repository/bin");
    fs::create_dir(&bin).expect("a folder");
    let claude = &Setting::of_this_run().claude;
    symlink(claude, machine.path("bin/claude")).expect("a link");
    let first = |path: &str| -> Ended {
        let path = format!("{path}:{}:/usr/bin:/bin", machine.path("bin").display());
        let mut command =
            machine.sandbox(&machine.path("repository"), &["agent", "--timeout", "300", "hello"]);
        command.env("ANTHROPIC_API_KEY", KEY).env("PATH", path).output().expect("the sandbox command").into()
    };
    // As the agent, this program would answer nothing.
    fs::copy("/bin/true", bin.join("claude")).expect("a copy");
    for path in ["bin", ".", &bin.display().to_string()] {
        let ended = first(path);
        assert!(ended.code == Some(0) && !ended.stdout.is_empty(), "{path}: {ended:?}");
    }
    let elsewhere = machine.path("elsewhere");
    fs::rename(bin, &elsewhere).expect("our own folder");
    assert_ne!(first(&elsewhere.display().to_string()).code, Some(0), "the control");
}

#[tokio::test(flavor = "multi_thread")]
async fn git_of_a_task_is_not_run_where_path_leads_to_it() {
    let machine = Machine::new().await;
    let (repository, marker) = (machine.path("repository"), machine.path("marker"));
    let git = format!("#!/bin/sh\ntouch '{}'\nPATH=/usr/bin:/bin exec git \"$@\"\n", marker.display());
    write(&repository.join("git"), &git);
    let commits = |first: &Path, script: &str| {
        let script = format!("{script}git -c user.name=a -c user.email=a commit -q --allow-empty -m new");
        let mut run = machine.sandbox(&repository, &["run", "--", "sh", "-c", &script]);
        let status = run.env("PATH", format!("{}:/usr/bin:/bin", first.display())).status();
        assert!(status.expect("the sandbox command").success());
    };
    // As after `. .venv/bin/activate`.
    let tools = repository.join(".venv/bin");
    fs::create_dir_all(&tools).expect("a folder");
    commits(&tools, "cp git .venv/bin/git; ");
    assert!(tools.join("git").exists() && !marker.exists());
    // The control: it is run where no task can write.
    write(&machine.path("elsewhere/git"), &git);
    commits(&machine.path("elsewhere"), "");
    assert!(marker.exists(), "the control");
}
