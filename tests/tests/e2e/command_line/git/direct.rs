//! Commits of a task that works on the tree itself, after failures, next to concurrent runs, and in
//! new repositories.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use super::*;

/// A run that has executed its script, and ends when its stdin is closed.
struct Running {
    child: Child,
    _output: BufReader<ChildStdout>,
}

impl Running {
    fn start(fixture: &Fixture, script: &str) -> Self {
        let script = format!("set -e; {script}; echo ready; cat");
        let mut command =
            fixture.project.sandbox(&["run", "--workspace", "direct", "--", "bash", "-c", &script]);
        command.current_dir(&fixture.work_tree).env("HOME", fixture.home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the sandbox command");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let running = Self { child, _output: output };
        if line == "ready\n" { running } else { panic!("the script failed: {:?}", running.finish()) }
    }

    fn finish(self) -> Ended {
        self.child.wait_with_output().expect("our own child").into()
    }
}

fn commit(branch: &str) -> String {
    format!("git switch -qc {branch}; echo {branch} > {branch}.txt; git add .; git commit -qm {branch}")
}

const NAMES: &str =
    "git for-each-ref --format='%(refname:short) %(contents:subject)' refs/heads refs/sandbox";

#[tokio::test(flavor = "multi_thread")]
async fn commits_of_a_killed_run_are_imported_by_the_next_command() {
    let fixture = Fixture::with(Kind::Clone, Project::with_prefix("e2e-git-killed"));
    let mut running = Running::start(&fixture, &commit("task"));
    running.child.kill().expect("our own child");
    running.child.wait().expect("our own child");
    assert!(
        !fixture.host(&fixture.work_tree, NAMES).contains("task"),
        "the control: nothing is imported yet"
    );
    let next = fixture.run("direct", "git log -1 --format=%s task");
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "task\n"), "{next:?}");
    assert!(next.stderr.contains("changes in repositories by a run that was killed"), "{next:?}");
    assert_eq!(
        fixture.host(&fixture.work_tree, "git log -1 --format=%s task; git fsck --strict 2>&1"),
        "task\n"
    );
    // It is imported only once.
    let next = fixture.sandbox(&["clean"]);
    assert!(!next.stderr.contains("by a run that was killed"), "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_commits_of_two_runs_and_the_host_are_all_kept() {
    for kind in [Kind::Clone, Kind::Linked] {
        let fixture = Fixture::new(kind);
        let first =
            Running::start(&fixture, "git branch first; git tag -a -m one one; git notes add -m note");
        let second = Running::start(&fixture, "git branch second; git branch first main~1");
        fixture.host(
            &fixture.work_tree,
            "git commit -q --allow-empty -m host; git branch host; git repack -qad; git pack-refs --all",
        );
        let head = fixture.host(&fixture.work_tree, "git rev-parse HEAD");
        for running in [first, second] {
            let ended = running.finish();
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
        let names = fixture.host(&fixture.work_tree, NAMES);
        for name in ["first two", "second two", "host host"] {
            assert!(names.lines().any(|line| line == name), "{kind:?}: {name}: {names}");
        }
        let kept =
            names.lines().filter(|line| line.starts_with("sandbox/") && line.ends_with("/heads/first one"));
        assert_eq!(kept.count(), 1, "{kind:?}: the second run's `first`: {names}");
        assert_eq!(
            fixture.host(&fixture.work_tree, "git rev-parse HEAD host").lines().nth(1),
            head.lines().next()
        );
        fixture.host(
            &fixture.work_tree,
            "git rev-parse -q --verify one; git notes show HEAD~1; git fsck --strict",
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_import_is_an_error_and_succeeds_once_its_cause_is_gone() {
    let fixture = Fixture::with(Kind::Clone, Project::with_prefix("e2e-git-failed"));
    let running = Running::start(&fixture, &commit("task"));
    fixture.host(&fixture.work_tree, "mv .git ../other; git init -q .");
    let ended = running.finish();
    ended.fails(125, "failed to import the task's changes");
    assert!(ended.stderr.contains("are kept in `"), "{ended:?}");
    fixture.host(&fixture.work_tree, "rm -r .git; mv ../other .git");
    // The start of a run does not retry an import that took long to fail.
    let kept_in = ended.stderr.split("are kept in `").nth(1).and_then(|rest| rest.split('`').next());
    fs::write(Path::new(kept_in.expect("a folder")).join("slow"), "").expect("a file");
    let next = fixture.run("direct", "true");
    assert!(next.code == Some(0) && next.stderr.contains("took long to fail before"), "{next:?}");
    let elsewhere = Fixture::with(Kind::Clone, Project::with_prefix("e2e-git-failed"));
    let next = elsewhere.run("direct", "true");
    assert!(!next.stderr.contains("took long"), "{next:?}");
    let next = fixture.sandbox(&["clean"]);
    assert_eq!(next.code, Some(0), "{next:?}");
    assert_eq!(fixture.host(&fixture.work_tree, "git log -1 --format=%s task"), "task\n", "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn first_commit_of_a_project_includes_its_settings() {
    for mode in ["direct", "copy"] {
        let project = Project::new();
        let home = tempfile::tempdir().expect("a folder");
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            let done = command.args(arguments).current_dir(project.path()).env("HOME", home.path()).output();
            String::from_utf8_lossy(&done.expect("git").stdout).into_owned()
        };
        git(&["init", "-q", "-b", "main"]);
        let script = "git -c user.name=T -c user.email=t@a.test commit -qm first; git status --porcelain";
        let ended = project.output(&[
            "run",
            "--workspace",
            mode,
            "--",
            "bash",
            "-ec",
            &format!("git add -A; {script}"),
        ]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{mode}: {ended:?}");
        project.output(&["apply"]);
        assert_eq!(git(&["log", "--format=%s"]), "first\n", "{mode}: {ended:?}");
        assert_eq!(git(&["status", "--porcelain"]), "", "{mode}: {ended:?}");
        assert!(git(&["ls-files"]).contains(".sandbox/sandbox.yaml"), "{mode}: {ended:?}");
    }
}
