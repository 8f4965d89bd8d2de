//! Runs of one repository next to each other, each in a linked work tree of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::project::{Ended, Project, assert_nothing_left};
use super::stand_in::RESULT;
use crate::lifecycle::engine::{Engine, project_with_second_engine};

fn git(folder: &Path, script: &str) -> String {
    let who = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@x";
    let script = format!("set -e; {who}; {script}");
    let ran = Command::new("sh").args(["-c", &script]).current_dir(folder).output().expect("a shell");
    assert!(ran.status.success(), "{script}: {ran:?}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_work_trees_of_their_own_commit_to_their_branches() {
    let prefix = "e2e-cli-worktree";
    let project = Project::with_prefix(prefix);
    let app = project.path().join("app");
    fs::create_dir_all(app.join("sub")).expect("a folder");
    fs::rename(project.path().join(".sandbox"), app.join(".sandbox")).expect("settings");
    fs::write(app.join("sub/file"), "1\n").expect("a file");
    git(&app, "git init -q -b main .; git add sub; git commit -qm 1");
    let in_sub = |arguments: &[&str]| -> Ended {
        let mut command = project.wary(arguments);
        command.current_dir(app.join("sub")).output().expect("the sandbox command").into()
    };
    let commit = "git config user.name || git config user.name T; git config user.email || git config user.email t@x; \
                  echo \"$0\" > file; git commit -qam \"$0\"";

    // Nothing is run without the settings, which are not committed yet.
    assert_eq!(in_sub(&["trust"]).code, Some(0));
    in_sub(&["run", "--worktree=one", "--", "true"])
        .fails(125, "`.sandbox/sandbox.yaml` differs from its committed version");
    git(&app, "git add .sandbox; git commit -qm settings");

    let mut ids = Vec::new();
    for name in ["one", "two"] {
        let flag = format!("--worktree={name}");
        let started = in_sub(&["run", "-d", &flag, "--", "bash", "-c", commit, name]);
        assert_eq!(started.code, Some(0), "what is trusted of the project is trusted there: {started:?}");
        assert!(started.stderr.contains(&format!("on the branch {name}")), "{started:?}");
        ids.push(started.stdout.trim_end().to_owned());
    }
    let waited = in_sub(&["wait", &ids[0], &ids[1]]);
    assert_eq!(waited.code, Some(0), "{waited:?}");
    for (name, id) in ["one", "two"].iter().zip(&ids) {
        assert!(waited.stdout.contains(&format!("{id}  0\n")), "{waited:?}");
        assert_eq!(git(&app, &format!("git log --format=%s -1 {name}")), format!("{name}\n"));
        assert_eq!(git(&app, &format!("git show {name}:sub/file")), format!("{name}\n"));
    }
    assert_eq!(git(&app, "cat sub/file; git status --porcelain"), "1\n", "the main work tree is as it was");
    let listed = in_sub(&["ps", "--all"]).stdout;
    assert!(listed.contains("app.worktrees/two"), "{listed}");

    // Changes that wait in a copy are found by their run, from any folder.
    let copied = ["run", "-d", "--worktree=two", "--workspace", "copy", "--", "bash", "-c", "echo 3 > file"];
    let copied = in_sub(&copied);
    let id = copied.stdout.trim_end();
    assert_eq!(in_sub(&["wait", id]).code, Some(0), "{copied:?}");
    // The report on a run in a work tree is made there, and shows that one's copy.
    in_sub(&["report", id]).fails(125, "of this project");
    let mut there = project.wary(&["report", id]);
    there.current_dir(project.path().join("app.worktrees/two/sub"));
    let page: Ended = there.output().expect("the sandbox command").into();
    let page = fs::read_to_string(page.stdout.trim_end()).expect("a page");
    assert!(page.contains("M  sub/file"), "{page}");
    let changed = in_sub(&["diff", id]);
    assert!(changed.stdout.contains("M  sub/file\n"), "{changed:?}");
    assert!(!in_sub(&["diff"]).stdout.contains("sub/file"));
    assert_eq!(in_sub(&["apply", id]).code, Some(0));
    assert_eq!(git(&app, "cat sub/file ../app.worktrees/two/sub/file"), "1\n3\n");
    assert_eq!(in_sub(&["diff", id]).stdout, "");
    in_sub(&["discard", "0123"]).fails(125, "unknown run `0123`");
    in_sub(&["--trust", "discard", id]).fails(2, "cannot be combined with a run");

    // The same name is the same work tree, with what the run before left in it.
    let again = in_sub(&["run", "--worktree=one", "--", "cat", "file"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "one\n"), "{again:?}");
    // What allows more than the project does has to be trusted by itself.
    let policy = project.path().join("app.worktrees/one/.sandbox/network-allowlist.yaml");
    fs::write(policy, "domains: [open.test, evil.test]\n").expect("a file");
    in_sub(&["run", "--worktree=one", "--", "true"]).fails(125, "changed since you trusted them");
    fs::create_dir(project.path().join("app.worktrees/three")).expect("a folder");
    in_sub(&["run", "--worktree=three", "--", "true"]).fails(125, "is not a work tree of this repository");
    in_sub(&[&format!("--trust=sha256:{}", "0".repeat(64)), "run", "--worktree=four", "--", "true"])
        .fails(2, "cannot be combined with --worktree");
    // A branch stays when its work tree is removed, and is used again.
    git(&app, "git worktree remove --force ../app.worktrees/two");
    let again = in_sub(&["run", "--worktree=two", "--", "cat", "file"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "two\n"), "{again:?}");
    // A link that an earlier run left in the place of the current folder leads nowhere.
    let sub = project.path().join("app.worktrees/two/sub");
    fs::remove_dir_all(&sub).expect("a folder");
    std::os::unix::fs::symlink(project.path(), &sub).expect("a link");
    in_sub(&["run", "--worktree=two", "--", "true"]).fails(125, "is reached through a link");
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_tree_without_a_repository_is_refused() {
    let project = Project::new();
    let ended: Ended =
        project.wary(&["run", "--worktree", "--", "true"]).output().expect("the command").into();
    ended.fails(125, "are not trusted");
    assert_eq!(project.wary(&["trust"]).status().expect("the command").code(), Some(0));
    let ended: Ended =
        project.wary(&["run", "--worktree", "--", "true"]).output().expect("the command").into();
    ended.fails(2, "this folder is not in one");
}

/// A repository with a file of tasks, and a script in the place of the agent.
struct Each {
    project: Project,
    app: PathBuf,
    program: String,
}

impl Each {
    /// `waits` is what the script does before it commits; it has the prompt in `$prompt`.
    fn new(project: Project, tasks: &str, waits: &str) -> Self {
        let app = project.path().join("app");
        fs::create_dir(&app).expect("a folder");
        fs::rename(project.path().join(".sandbox"), app.join(".sandbox")).expect("settings");
        git(&app, "git init -q -b main .; git add .; git commit -qm 1");
        fs::write(app.join("tasks"), tasks).expect("a file");
        let program = project.path().join("claude");
        let script = format!(
            "#!/bin/bash\nread -r prompt; touch begun; {waits}\n\
             curl -s http://evil.example/ > /dev/null; echo 1 > made; git add made\n\
             git -c user.name=T -c user.email=t@x commit -qm made; echo '{RESULT}'\n"
        );
        fs::write(&program, script).expect("a script");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
        let program = program.display().to_string();
        let each = Self { project, app, program };
        let trusted: Ended = each.sandbox(&["trust"]).output().expect("the command").into();
        assert_eq!(trusted.code, Some(0), "{trusted:?}");
        each
    }

    fn sandbox(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.wary(arguments);
        command.current_dir(&self.app);
        command
    }

    fn run(&self, flags: &[&str]) -> Command {
        let each = ["agent", "--each", "tasks", "--workspace", "direct", "--agent-bin", &self.program];
        self.sandbox(&[&each[..], flags].concat())
    }

    fn start(&self, flags: &[&str]) -> Child {
        self.run(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command")
    }

    /// Runs all to their ends, and returns their reports.
    fn finish(&self, flags: &[&str]) -> Vec<Value> {
        let ended: Ended =
            self.run(&[&["--output", "json"], flags].concat()).output().expect("the command").into();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let report = ended.json();
        let agents = report.get("agents").and_then(Value::as_array).expect("agents").clone();
        for agent in &agents {
            assert_eq!(agent.pointer("/run/outcome"), Some(&Value::from("success")), "{report}");
            let branch = agent.get("branch").and_then(Value::as_str).expect("a name");
            assert_eq!(git(&self.app, &format!("git log --format=%s -1 {branch}")), "made\n");
        }
        agents
    }

    fn tree(&self, name: &str) -> PathBuf {
        self.project.path().join("app.worktrees").join(name)
    }

    fn runs(&self, flags: &[&str]) -> Vec<Value> {
        let arguments = [&["ps", "--output", "json"], flags].concat();
        let listed: Ended = self.sandbox(&arguments).output().expect("the command").into();
        listed.json().get("runs").and_then(Value::as_array).expect("runs").clone()
    }
}

/// Waits until `is_so`, or until the command has ended.
async fn until(command: &mut Child, mut is_so: impl FnMut() -> bool) {
    while !is_so() && command.try_wait().expect("our own child").is_none() {
        // tidy: sleep: a file of a container has no event.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_a_file_continue_where_they_were_interrupted() {
    let prefix = "e2e-cli-each";
    let tasks = "The first!\n\n{\"prompt\": \"wait\", \"name\": \"slow\"}\nthe last\n";
    let waits = "case $prompt in *wait*) until [ -e go ]; do sleep 0.1; done;; esac";
    let each = Each::new(Project::with_prefix(prefix), tasks, waits);
    let mut first = each.start(&["-j1"]);
    let slow = each.tree("slow");
    until(&mut first, || slow.join("begun").exists()).await;
    kill_process(Pid::from_child(&first), Signal::INT).expect("our own child");
    let first: Ended = first.wait_with_output().expect("our own child").into();
    assert_eq!(first.code, Some(130), "{first:?}");
    assert!(first.stderr.contains("the same command continues"), "{first:?}");
    let rows: Vec<&str> = first.stdout.lines().collect();
    let [_, done, stopped, rest] = rows[..] else { panic!("{first:?}") };
    assert!(done.contains("exit 0, success") && done.contains("evil.example"), "{first:?}");
    assert!(done.starts_with("the-first-") && done.ends_with("The first!"), "{first:?}");
    // With another exit code if the signal came before its start was reported.
    assert!(stopped.starts_with("slow ") && !stopped.contains("success"), "{first:?}");
    assert!(rest.contains("not started"), "{first:?}");

    fs::write(slow.join("go"), "").expect("a file");
    let agents = each.finish(&[]);
    assert_eq!(agents.len(), 3, "{agents:?}");
    let id = agents[0]["run"]["id"].as_str().expect("an id");
    assert!(done.contains(id), "an agent that succeeded is not run again: {agents:?} {done}");
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_agents_survive_killed_owners_a_closed_terminal_and_an_engine_restart() {
    let prefix = "e2e-cli-twenty";
    let tasks: Vec<String> =
        (1..=20).map(|number| format!(r#"{{"prompt": "{number}", "name": "t{number}"}}"#)).collect();
    let tasks = tasks.join("\n");
    let project = project_with_second_engine(prefix);
    let engine = Engine::of_this_run();
    let service = engine.second(&project);
    let each = Each::new(project, &tasks, "until [ -e /gate/go ]; do sleep 0.1; done");
    let gate = tempfile::tempdir().expect("a folder");
    let mount = format!("{}:/gate", gate.path().display());
    let flags = ["-j5", "--mount", &mount];
    let mut first = each.start(&flags);
    until(&mut first, || each.runs(&[]).len() == 5).await;
    let running = each.runs(&[]);
    assert_eq!(running.len(), 5, "{running:?}");
    let mut killed = Vec::new();
    for run in &running[..3] {
        let pid = run["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).expect("a number");
        kill_process(pid, Signal::KILL).expect("an owner");
        killed.push(run["id"].clone());
    }
    kill_process(Pid::from_child(&first), Signal::HUP).expect("our own child");
    let first: Ended = first.wait_with_output().expect("our own child").into();
    assert_eq!(first.code, Some(129), "{first:?}");

    let mut second = each.start(&flags);
    until(&mut second, || each.runs(&[]).len() == 5).await;
    drop(service);
    let _service = engine.second(&each.project);
    fs::write(gate.path().join("go"), "").expect("a file");
    let second: Ended = second.wait_with_output().expect("our own child").into();
    assert_eq!(second.code, Some(125), "an engine that dies ends its agents: {second:?}");

    let agents = each.finish(&flags);
    assert_eq!(agents.len(), 20, "{agents:?}");
    for run in each.runs(&["--all"]) {
        let states: &[&str] =
            if killed.contains(&run["id"]) { &["killed"] } else { &["ended", "no program"] };
        assert!(states.contains(&run["state"].as_str().expect("a state")), "{run}");
    }
    assert_nothing_left(prefix).await;
}
