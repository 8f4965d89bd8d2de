//! A folder without settings, and settings from elsewhere: parent folders, and the user's own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e_tests::engine;
use e2e_tests::setting::Setting;
use e2e_tests::world::World;
use tempfile::TempDir;

use super::project::{Ended, PREFIX, Project, config};
use super::stand_in::RESULT;

pub(super) const KEY: &str = "sk-ant-api03-zeroconfig0123456789abcdefghijklmnopqrstuvwxyz";

/// A machine with user settings for the engine and the test servers, and a fresh repository.
pub(super) struct Machine {
    folder: TempDir,
}

impl Machine {
    pub(super) async fn new() -> Self {
        base_image().await;
        let machine = Self { folder: tempfile::tempdir().expect("a folder") };
        for folder in ["config/sandbox", "bin", "repository"] {
            fs::create_dir_all(machine.path(folder)).expect("a folder");
        }
        let own = config(PREFIX, "X").replace("image: X\n", "");
        fs::write(machine.path("config/sandbox/sandbox.yaml"), own).expect("a file");
        fs::write(machine.path("config/sandbox/roots.pem"), World::shared().roots_pem()).expect("a file");
        let init = Command::new("git").arg("init").arg("-q").current_dir(machine.path("repository")).status();
        assert!(init.expect("git").success());
        machine
    }

    pub(super) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn sandbox(&self, folder: &Path, arguments: &[&str]) -> Command {
        let setting = Setting::of_this_run();
        let mut command = Command::new(&setting.sandbox_bin);
        command
            .args(arguments)
            .current_dir(folder)
            .env("SANDBOX_PROXY_DIR", &setting.proxy_dir)
            .env("XDG_STATE_HOME", setting.folder.join(PREFIX))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .stdin(Stdio::null());
        for name in ["CONTAINER_HOST", "DOCKER_HOST", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"] {
            command.env_remove(name);
        }
        command
    }

    pub(super) fn ended(&self, arguments: &[&str]) -> Ended {
        let mut command = self.sandbox(&self.path("repository"), arguments);
        command.env("ANTHROPIC_API_KEY", KEY).output().expect("the sandbox command").into()
    }
}

/// Builds the base image of the default Dockerfile. The tests have no packages: `apt-get` does
/// nothing, and `npm` installs an agent that answers with its key.
async fn base_image() {
    let project = Project::new();
    project.write(".sandbox/sandbox.yaml", &config(PREFIX, "X").replace("image: X\n", ""));
    let agent = format!(
        "#!/bin/bash\ncat > /dev/null\nprintf '%s\\n' '{}'\n",
        RESULT.replace(r#""hi""#, r#""'"$ANTHROPIC_API_KEY"'""#)
    );
    let npm =
        "#!/bin/sh\n[ \"$1 $5\" = 'install @anthropic-ai/claude-code' ] && cp /agent /usr/local/bin/claude\n";
    for (name, script) in [("apt-get", "#!/bin/sh\n"), ("npm", npm), ("agent", &agent)] {
        project.write(&format!(".sandbox/container/{name}"), script);
    }
    let dockerfile = format!(
        "FROM {}\nCOPY apt-get /usr/local/sbin/apt-get\nCOPY npm /usr/local/bin/npm\nCOPY agent /agent\n",
        Setting::of_this_run().clients_image
    );
    project.write(".sandbox/container/Dockerfile", &dockerfile);
    let built = project.output(&["build"]);
    assert_eq!(built.code, Some(0), "{built:?}");
    let tags = project.output(&["image", "hash", "--output", "json"]).json();
    let repo = tags.get("repo").and_then(serde_json::Value::as_str).expect("a tag");
    let (status, _) = engine::raw(
        "POST",
        &format!("/v4.0.0/libpod/images/{repo}/tag?repo=localhost/debian&tag=trixie-slim"),
    )
    .await;
    assert_eq!(status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_answers_in_a_fresh_repository_without_settings() {
    let machine = Machine::new().await;
    symlink(&Setting::of_this_run().claude, machine.path("bin/claude")).expect("a link");
    let ended = machine.ended(&["agent", "--timeout", "300", "remember the word heliotrope"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("heliotrope"), "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert!(lines[0].starts_with("image: built from the default Dockerfile, with /"), "{ended:?}");
    assert_eq!(
        lines[1],
        "network: api.anthropic.com only; key: ANTHROPIC_API_KEY, masked; `sandbox init` writes files to customize it"
    );
    assert!(!machine.path("repository/.sandbox").exists(), "no settings are written");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_missing_on_the_host_is_installed_and_sees_no_key() {
    let machine = Machine::new().await;
    // A script is not a native program.
    fs::write(machine.path("bin/claude"), "#!/usr/bin/env node\n").expect("a file");
    let ended = machine.ended(&["agent", "hello"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("default Dockerfile, with Claude Code from npm"), "{ended:?}");
    let answer = ended.stdout.trim();
    assert!(answer.starts_with("sk-ant-api03-") && answer != KEY, "a surrogate: {ended:?}");

    let mut without = machine.sandbox(&machine.path("repository"), &["agent", "hello"]);
    let without: Ended = without.output().expect("the sandbox command").into();
    without.fails(
        125,
        "error: Claude Code has no API key: ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN is not set",
    );
    without.fails(125, "hint: export ANTHROPIC_API_KEY");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_in_a_fresh_repository_reaches_no_host() {
    let machine = Machine::new().await;
    let script = "curl -sS -o /dev/null -w '%{http_code} ' https://open.test/; git status --short; echo \"${ANTHROPIC_API_KEY-unset}\"";
    let ended = machine.ended(&["run", "--", "bash", "-c", script]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "403 unset\n"), "{ended:?}");
    assert!(ended.stderr.starts_with("image: built from the default Dockerfile;"), "{ended:?}");
    assert!(ended.stderr.contains("so no host can be reached"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_init_are_trusted_until_changed() {
    let machine = Machine::new().await;
    fs::write(machine.path("repository/Cargo.toml"), "").expect("a file");
    let init = machine.ended(&["init"]);
    assert_eq!((init.code, init.stdout.lines().count()), (Some(0), 4), "{init:?}");
    let expected =
        "for tasks that fetch dependencies: `sandbox allowlist packages cargo`\nnext: `sandbox agent ";
    assert!(init.stderr.starts_with(expected), "{init:?}");
    let ended = machine.ended(&["agent", "hello"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let answer = ended.stdout.trim();
    assert!(answer.starts_with("sk-ant-api03-") && answer != KEY, "a surrogate: {ended:?}");
    // The control: changes by others are not trusted.
    fs::write(machine.path("repository/.sandbox/network-allowlist.yaml"), "domains: [evil.test]")
        .expect("a file");
    machine.ended(&["agent", "hello"]).fails(125, "changed since you trusted them");
    let again = machine.ended(&["init"]);
    assert!(again.stdout.contains("network-allowlist.yaml already exists and was not changed"), "{again:?}");
    machine.ended(&["agent", "hello"]).fails(125, "changed since you trusted them");
}

#[tokio::test(flavor = "multi_thread")]
async fn devcontainer_image_is_used_once_trusted() {
    let project = Project::new();
    project.write(".sandbox/sandbox.yaml", &config(PREFIX, "X").replace("image: X\n", ""));
    let file = format!(
        "{{\n  // The image\n  \"image\": \"{}\",\n  \"containerEnv\": {{\"GREETING\": \"a \\\"b\\\" $HOME\"}},\n  \"features\": {{}},\n}}\n",
        Setting::of_this_run().image
    );
    project.write(".devcontainer/devcontainer.json", &file);
    let command = ["run", "--", "sh", "-c", "echo \"$GREETING\""];
    let wary: Ended = project.wary(&command).output().expect("the sandbox command").into();
    wary.fails(125, ".devcontainer/devcontainer.json:\n    + build an image from it");
    let ended = project.output(&command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "a \"b\" $HOME\n"), "{ended:?}");
    assert_eq!(ended.stderr, "image: from .devcontainer/devcontainer.json; ignored there: features\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_override_the_settings_for_one_run() {
    let project = Project::new();
    project.append(".sandbox/sandbox.yaml", "env: {A: file, B: file}\nresource_limits: {memory: 1g}\n");
    let script = "echo $A $B $C; pwd; cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes memory.max pids/pids.max pids.max 2>/dev/null; true";
    let flags =
        ["-e", "A=flag", "-e", "C", "--memory", "256m", "--pids", "64", "--cpus", "1", "-w", "/var/tmp"];
    let arguments = [&["run"], &flags[..], &["sh", "-c", script]].concat();
    let ended: Ended =
        project.sandbox(&arguments).env("C", "c").output().expect("the sandbox command").into();
    assert_eq!(ended.stdout, "flag file c\n/var/tmp\n268435456\n64\n", "{ended:?}");
    let slow = project.output(&["run", "--timeout", "2s", "sleep", "600"]);
    slow.fails(124, "after its time limit of 2 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_agent_is_an_error_with_hints() {
    let project = Project::new();
    let none = project.output(&["agent", "hello"]);
    none.fails(127, "error: the image has no `claude`\nhint: mount the host's with --agent-bin");
    project
        .output(&["agent", "--agent-bin", "", "hello"])
        .fails(2, "the path is empty: the agent is not in PATH");
    project.write("program", "");
    let program = project.path().join("program").display().to_string();
    project.output(&["agent", "--agent-bin", &program, "hello"]).fails(125, "it is not executable");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_pull_of_a_base_image_has_a_hint() {
    let project = Project::new();
    project.write(".sandbox/sandbox.yaml", &config(PREFIX, "X").replace("image: X\n", ""));
    project.write(".sandbox/container/Dockerfile", "FROM no-such-image:1\n");
    let ended = project.run("true");
    ended.fails(125, "hint: the base image could not be pulled");
    assert_eq!(ended.stderr.matches("failed to build image").count(), 1, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_in_a_parent_folder_are_the_projects() {
    let project = Project::new();
    project.write("src/deep/file", "");
    let run = |folder: &str| -> Ended {
        let mut command = project.sandbox(&["run", "--", "bash", "-c", "pwd; curl -sS https://open.test/"]);
        // The project's own settings take precedence over this engine.
        command.current_dir(project.path().join(folder)).env("CONTAINER_HOST", "unix:///no/such.sock");
        command.output().expect("the sandbox command").into()
    };
    let deep = run("src/deep");
    assert_eq!(deep.stdout, "/workspace/src/deep\nhello from open.test\n", "{deep:?}");
    let expected =
        format!("project {}, from a parent folder\n", project.path().canonicalize().unwrap().display());
    assert_eq!(deep.stderr, expected);
    let top = run(".");
    assert_eq!((top.stdout.as_str(), top.stderr.as_str()), ("/workspace\nhello from open.test\n", ""));
    // A nested repository is a separate project.
    project.write("src/deep/.git", "gitdir: elsewhere\n");
    assert_ne!(run("src/deep").code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_in_the_repositorys_configuration_is_warned_of() {
    let project = Project::new();
    let config = |user: &str| format!("[remote \"origin\"]\n\turl = https://{user}git.test/app\n");
    project.write(".git/config", &config("any:secret@"));
    let ended = project.run("cat .git/config");
    assert!(ended.stdout.contains("any:secret@"), "the task can read it: {ended:?}");
    assert!(ended.stderr.contains("credentials in .git/config: remote.origin.url"), "{ended:?}");
    assert!(!ended.stderr.contains("secret"), "{ended:?}");
    project.write(".git/config", &config(""));
    let control = project.run("cat .git/config");
    assert!(control.code == Some(0) && !control.stderr.contains("credentials"), "{control:?}");

    // A linked work tree shares the configuration of its repository.
    let linked = "git init -q main && cd main && git remote add origin https://any:secret@git.test/app && \
                  git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git worktree add -q ../linked";
    let mut made = Command::new("sh");
    made.args(["-c", linked]).current_dir(project.path());
    let made = made.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").status();
    assert!(made.expect("git").success());
    let mut command =
        project.sandbox(&["run", "--config", "../.sandbox", "--", "git", "config", "remote.origin.url"]);
    let ended: Ended =
        command.current_dir(project.path().join("linked")).output().expect("the command").into();
    assert_eq!(ended.stdout, "https://any:secret@git.test/app\n", "{ended:?}");
    assert!(ended.stderr.contains("main/.git/config: remote.origin.url"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn config_that_is_a_folder_replaces_the_projects_settings() {
    let project = Project::new();
    fs::rename(project.path().join(".sandbox"), project.path().join("other")).expect("a folder");
    project.write(".sandbox/sandbox.yaml", "engine: unix:///no/such.sock\n");
    project.write(".sandbox/network-allowlist.yaml", "domains: []\n");
    let run = ["run", "--config", "other", "--", "curl", "-sS", "https://open.test/"];
    let ended = project.output(&run);
    assert_eq!(ended.stdout, "hello from open.test\n", "{ended:?}");
    // A task could write there, too.
    let refused: Ended = project.wary(&run).output().expect("the command").into();
    assert!(
        refused.code == Some(125) && refused.stderr.contains("other/network-allowlist.yaml"),
        "{refused:?}"
    );
    let write = "touch other/new || echo held; touch elsewhere";
    let held = project.output(&["run", "--config", "other", "--", "sh", "-c", write]);
    assert_eq!((held.code, held.stdout.as_str()), (Some(0), "held\n"), "{held:?}");
    // The control: those of the project.
    assert_ne!(project.run("true").code, Some(0));
}
