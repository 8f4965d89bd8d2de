//! Everyday git commands in each kind of repository, on the work tree itself and on a copy: they
//! work, or git or the command reports why not, and the host's own git stays safe. docs/git.md
//! describes the same behaviour.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e_tests::assert_held;
use tempfile::TempDir;

use super::project::{Ended, Project};

mod direct;
mod withheld;

/// The expected end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    /// Exit code 0, and this text on stderr.
    SuccessWith(&'static str),
    /// Another exit code, and this text on stderr.
    FailureWith(&'static str),
}
use Outcome::{FailureWith, Success, SuccessWith};

const FILE_IS_READ_ONLY: &str = "unable to unlink old '.mcp.json'";

/// A command in a clean work tree of the first branch.
struct Case {
    name: &'static str,
    script: &'static str,
    /// On the work tree itself, if the other branch has other versions of protected files.
    guarded: Outcome,
}

const fn case(name: &'static str, script: &'static str) -> Case {
    Case { name, script, guarded: Success }
}

const fn in_guarded(name: &'static str, script: &'static str, guarded: Outcome) -> Case {
    Case { name, script, guarded }
}

const CASES: [Case; 24] = [
    case("status", "git status"),
    case("log", "git log --oneline --graph --all"),
    case("diff", "echo x >> a; git diff --stat"),
    case("blame", "git blame a"),
    case("add", "echo x > n; git add n"),
    case("commit", "echo x > n; git add n; git commit -qm n; git log -1 --format=%an | grep -qx Ann"),
    case("commit --amend", "git commit -q --amend -m amended"),
    case("switch -c", "git switch -qc new; git switch -q -"),
    case("restore", "echo x >> a; git restore a"),
    case("stash", "echo x >> a; git stash -q; git stash pop -q"),
    case("tag", "git tag -a v1 -m v1"),
    case("branch -d", "git branch gone; git branch -qd gone"),
    case("revert", "git revert --no-edit HEAD"),
    case("fetch", "git fetch -q"),
    case("pull", "git pull -q origin main"),
    case("push -u", "git push -q -u origin HEAD:pushed"),
    case("config", "git config user.name X"),
    case(
        "worktree add",
        "git worktree add -q inner -b inner; cd inner; echo i > i; git add i; git commit -qm i",
    ),
    case("worktree prune", "git worktree prune"),
    case("gc", "git gc -q --prune=now"),
    in_guarded("cherry-pick", "git cherry-pick other", FailureWith(FILE_IS_READ_ONLY)),
    in_guarded("merge", "git merge -q other -m merged", FailureWith(FILE_IS_READ_ONLY)),
    in_guarded("rebase", "git rebase -q other", FailureWith(FILE_IS_READ_ONLY)),
    // Must be last: it leaves the work tree on the other branch.
    in_guarded("switch", "git switch -q other", SuccessWith(FILE_IS_READ_ONLY)),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Clone,
    Linked,
    Submodule,
    /// A clone of a repository that tracks protected files.
    Guarded,
    /// A linked work tree of such a clone.
    GuardedLinked,
}

impl Kind {
    fn is_guarded(self) -> bool {
        matches!(self, Self::Guarded | Self::GuardedLinked)
    }
}

/// Repositories of the host; one of their work trees is the project.
struct Fixture {
    project: Project,
    folder: TempDir,
    work_tree: PathBuf,
    home: TempDir,
}

impl Fixture {
    fn new(kind: Kind) -> Self {
        Self::with(kind, Project::new())
    }

    fn with(kind: Kind, project: Project) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let settings = "[user]\n name = Ann\n email = ann@a.test\n[init]\n defaultBranch = main\n[protocol \"file\"]\n allow = always\n";
        fs::write(home.path().join(".gitconfig"), settings).expect("a file");
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a folder");
        let (work_tree, clone) = match kind {
            Kind::Clone | Kind::Guarded => ("w", "git clone -q origin w; cd w"),
            Kind::Linked | Kind::GuardedLinked => {
                ("w", "git clone -q origin m; cd m; git worktree add -q ../w -b work; cd ../w")
            }
            Kind::Submodule => (
                "super/w",
                "git init -q super; cd super; git submodule -q add ../origin w; git commit -qm w; cd w",
            ),
        };
        let guarded = |version: u32| {
            let write =
                format!("mkdir -p .vscode; echo {version} | tee .vscode/settings.json .mcp.json > one;");
            if kind.is_guarded() { write } else { String::new() }
        };
        let (one, two) = (guarded(1), guarded(2));
        let fixture = Self { project, work_tree: root.join(work_tree), folder, home };
        fixture.host(
            &root,
            &format!(
                "git init -q --bare origin; git init -q first; cd first; echo a > a; echo b > b; {one} git add -A; git commit -qm one
                 git switch -qc other; echo other >> b; echo o > o; {two} git add -A; git commit -qm other
                 git switch -q main; echo c >> a; git commit -qam two; git push -q ../origin main other; cd ..
                 {clone}; git branch -q other origin/other; git tag start; git worktree add -q {root}/elsewhere -b elsewhere
                 echo .sandbox >> \"$(git rev-parse --git-common-dir)/info/exclude\"",
                root = root.display()
            ),
        );
        fixture.host(&root, &format!("cp -r {}/.sandbox {work_tree}", fixture.project.path().display()));
        let config = fixture.work_tree.join(".sandbox/sandbox.yaml");
        let origin = root.join("origin").display().to_string();
        let text = fs::read_to_string(&config).expect("a file");
        fs::write(config, format!("{text}network_sandbox: false\nmounts: ['{origin}:{origin}']\n"))
            .expect("a file");
        fixture
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("a folder")
    }

    /// Runs `script` on the host in `folder`; returns its output.
    #[track_caller]
    fn host(&self, folder: &Path, script: &str) -> String {
        let mut command = Command::new("bash");
        command.args(["-ec", script]).current_dir(folder).env("HOME", self.home.path());
        let done = command.env_remove("XDG_CONFIG_HOME").output().expect("a shell");
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn sandbox(&self, arguments: &[&str]) -> Ended {
        let mut command = self.project.sandbox(arguments);
        command.current_dir(&self.work_tree).env("HOME", self.home.path()).env_remove("XDG_CONFIG_HOME");
        command.output().expect("the sandbox command").into()
    }

    fn run(&self, mode: &str, script: &str) -> Ended {
        self.sandbox(&["run", "--workspace", mode, "--", "bash", "-c", script])
    }

    /// Runs all cases in sequence, and asserts their outcomes.
    fn run_cases(&self, mode: &str, kind: Kind) -> Ended {
        let mut script = "branch=$(git branch --show-current)\n".to_owned();
        for (number, case) in CASES.iter().enumerate() {
            let begin = "git reset -q --hard start; git clean -qfd";
            // The last case may leave its changes.
            let end = if number + 1 == CASES.len() { "" } else { "git switch -q $branch 2> /dev/null" };
            let report = format!("echo \"{number} $? $(tr '\\n' ' ' < /tmp/err)\"");
            let lines = [begin, &format!("(set -e; {}) > /tmp/out 2> /tmp/err", case.script), &report, end];
            script += &(lines.join("\n") + "\n");
        }
        let ended = self.run(mode, &script);
        let lines: Vec<&str> = ended.stdout.lines().collect();
        assert_eq!(lines.len(), CASES.len(), "{ended:?}");
        for (case, line) in CASES.iter().zip(lines) {
            let (expected, ended) = match (mode, kind) {
                ("direct", _) if kind.is_guarded() => (case.guarded, line),
                _ => (Success, line),
            };
            let mut fields = ended.splitn(3, ' ').skip(1);
            let (code, stderr) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            let is_as_expected = match expected {
                Success => code == "0",
                SuccessWith(text) => code == "0" && stderr.contains(text),
                FailureWith(text) => code != "0" && stderr.contains(text),
            };
            assert!(is_as_expected, "{kind:?} {mode} {}: {line}", case.name);
        }
        ended
    }

    /// Asserts that the host's git finds the state that the task left: the other branch, the branch
    /// `inner`, but no additional work tree.
    fn assert_imported(&self, dirty: &str) {
        let tree = &self.work_tree;
        assert_eq!(self.host(tree, "git branch --show-current"), "other\n");
        assert_eq!(self.host(tree, "git status --porcelain -uno"), dirty);
        assert_eq!(self.host(tree, "git fsck --connectivity-only 2>&1 | grep -v dangling || true"), "");
        let trees = self.host(tree, "git worktree list --porcelain");
        assert!(!trees.contains("prunable"), "{trees}");
        let elsewhere = self.root().join("elsewhere");
        assert!(trees.contains(&format!("worktree {}\n", elsewhere.display())), "{trees}");
        assert_eq!(self.host(&elsewhere, "git status --porcelain -uno"), "");
        assert_eq!(
            self.host(tree, "git log -1 --format='%s %ae' inner --; cat inner/i"),
            "i ann@a.test\ni\n"
        );
        assert!(!trees.contains("/inner\n") && !tree.join("inner/.git").exists(), "{trees}");
    }

    /// Asserts that a work tree, a setting and an upstream branch are withheld.
    fn assert_withheld(ended: &Ended) {
        for line in [
            "inner/.git: a git work tree",
            ".git/worktrees/inner: a new folder",
            ".git: user.name: unset -> \"X\"",
            ".merge: ",
        ] {
            assert!(ended.stderr.contains(line), "{line}: {ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everyday_git_commands_work_in_clones_and_linked_work_trees() {
    for kind in [Kind::Clone, Kind::Linked] {
        let fixture = Fixture::new(kind);
        let ended = fixture.run_cases("direct", kind);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let reports: Vec<&str> = ended.stderr.split("the task wrote `").skip(1).collect();
        let names: Vec<&str> = reports.iter().filter_map(|rest| rest.split('`').next()).collect();
        assert_eq!(names, ["inner/.git"], "{ended:?}");
        for line in ["worktrees/inner: a new folder", "user.name: unset -> \"X\"", ".merge: "] {
            assert!(ended.stderr.contains(line), "{line}: {ended:?}");
        }
        assert_eq!(fixture.host(&fixture.work_tree, "git config --local user.name || echo none"), "none\n");
        fixture.assert_imported("");
        let fixture = Fixture::new(kind);
        assert_eq!(fixture.run_cases("copy", kind).code, Some(0));
        assert_eq!(
            fixture
                .host(&fixture.work_tree, "git branch --show-current; git status --porcelain")
                .lines()
                .count(),
            1
        );
        let applied = fixture.sandbox(&["apply"]);
        assert_eq!(applied.code, Some(0), "{applied:?}");
        Fixture::assert_withheld(&applied);
        fixture.assert_imported("");
        // On request the setting is applied, and git creates a work tree of the branch.
        assert_eq!(fixture.host(&fixture.work_tree, "git config --local user.name || echo none"), "none\n");
        assert_eq!(fixture.sandbox(&["apply", "--git-config", "user.name"]).code, Some(0));
        assert_eq!(fixture.host(&fixture.work_tree, "git config --local user.name"), "X\n");
        assert_eq!(
            fixture.host(
                &fixture.work_tree,
                "git worktree add -q ../own inner; cd ../own; git status --porcelain; git branch --show-current"
            ),
            "inner\n"
        );
        let left = fixture.sandbox(&["diff"]);
        assert!(left.stdout.lines().all(|line| line.contains(".merge: ")), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn git_commands_that_change_protected_files_fail_or_are_withheld() {
    for kind in [Kind::Guarded, Kind::GuardedLinked] {
        let fixture = Fixture::new(kind);
        let ended = fixture.run_cases("direct", kind);
        ended.fails(125, "but could not write them; unchanged: `.mcp.json`, `.vscode/settings.json`");
        fixture.assert_imported(" M .mcp.json\n M .vscode/settings.json\n");
        fixture.host(&fixture.work_tree, "git restore .mcp.json .vscode; [ $(cat .mcp.json) = 2 ]");

        let fixture = Fixture::new(kind);
        let before = fixture.host(&fixture.work_tree, "git branch --show-current; git show-ref");
        assert_eq!(fixture.run_cases("copy", kind).code, Some(0));
        let withheld = fixture.sandbox(&["apply"]);
        assert!(withheld.code == Some(0) && withheld.stdout.is_empty(), "{withheld:?}");
        let hint = "hint: changes of one git operation are not split";
        assert!(withheld.stderr.contains(hint), "{withheld:?}");
        assert_eq!(fixture.host(&fixture.work_tree, "git branch --show-current; git show-ref"), before);
        assert_eq!(fixture.host(&fixture.work_tree, "git status --porcelain"), "");
        let applied = fixture.sandbox(&["apply", "--include-protected"]);
        assert_eq!(applied.code, Some(0), "{applied:?}");
        fixture.assert_imported("");
    }
}

/// A change outside of the commit is not part of it, so only that change is withheld.
#[tokio::test(flavor = "multi_thread")]
async fn uncommitted_protected_file_withholds_nothing_else() {
    let fixture = Fixture::new(Kind::Guarded);
    let script = "echo 3 > .mcp.json; echo n > n; git add n; git commit -qm n";
    assert_eq!(fixture.run("copy", script).code, Some(0));
    let applied = fixture.sandbox(&["apply"]);
    assert!(applied.stderr.contains("1 change is withheld") && applied.code == Some(0), "{applied:?}");
    assert_eq!(fixture.host(&fixture.work_tree, "git log -1 --format=%s; git status --porcelain"), "n\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_in_a_submodule_is_refused_and_works_in_the_outer_repository() {
    let fixture = Fixture::new(Kind::Submodule);
    for mode in ["direct", "copy"] {
        for case in &CASES {
            let ended = fixture.run(mode, case.script);
            ended.fails(125, "of a submodule: run in the repository that it is a part of");
            if case.name == "diff" {
                // One case is enough: the run is refused before its command starts.
                break;
            }
        }
    }
    let around = fixture.root().join("super");
    fixture.host(&around, "cp -r w/.sandbox .");
    let script =
        "cd w; echo n > n; git add n; git commit -qm n; cd ..; git submodule status; git commit -qam w";
    for mode in ["direct", "copy"] {
        let mut command = fixture.project.sandbox(&["run", "--workspace", mode, "--", "bash", "-ec", script]);
        let ended: Ended = command
            .current_dir(&around)
            .env("HOME", fixture.home.path())
            .output()
            .expect("the command")
            .into();
        assert_eq!(ended.code, Some(0), "{mode}: {ended:?}");
        let mut command = fixture.project.sandbox(&["apply"]);
        command.current_dir(&around).output().expect("the command");
        assert_eq!(
            fixture.host(&around, "git status --porcelain -uno; git -C w log -1 --format=%s"),
            "n\n",
            "{mode}"
        );
        fixture.host(&around, "git reset -q --hard HEAD~1; git submodule -q update --init");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_trees_of_the_host_survive_a_prune() {
    for kind in [Kind::Clone, Kind::Linked] {
        for mode in ["direct", "auto"] {
            let fixture = Fixture::new(kind);
            let elsewhere = fixture.root().join("elsewhere").display().to_string();
            let list = "git worktree list";
            let before = fixture.host(&fixture.work_tree, list);
            let ended = fixture.run(mode, &format!("git worktree prune && git gc -q && {list}"));
            assert!(ended.code == Some(0), "{kind:?} {mode}: {ended:?}");
            assert!(!ended.stdout.contains(&elsewhere), "the control: {kind:?} {mode}: {ended:?}");
            assert_eq!(fixture.host(&fixture.work_tree, list), before, "{kind:?} {mode}: {ended:?}");
        }
    }
}

/// A hook, settings and pointers that would make the git of the host or of the next task create
/// `mark`.
const PLANTS: &str = "cd /workspace; common=$(realpath $(git rev-parse --git-common-dir))
    plant() { printf '#!/bin/sh\\necho ran >> MARK\\n' > $1 && chmod +x $1; }
    mkdir -p $common/hooks; plant $common/hooks/post-commit; plant /workspace/evil; mkdir -p /workspace/evil.d; plant /workspace/evil.d/post-commit
    git config core.hooksPath /workspace/evil.d; git config core.fsmonitor /workspace/evil
    printf '[core]\\n\\thooksPath = ROOT/evil.d\\n' >> $common/config
    mkdir -p /workspace/fake/refs /workspace/fake/objects; cp $common/HEAD /workspace/fake; cp -r /workspace/evil.d /workspace/fake/hooks
    if [ -f .git ]; then own=$(git rev-parse --git-dir); printf ROOT/fake > $own/commondir; echo gitdir: ROOT/fake > .git; fi
    true";

#[tokio::test(flavor = "multi_thread")]
async fn hooks_and_settings_planted_by_a_task_never_run() {
    for kind in [Kind::Clone, Kind::Linked] {
        for mode in ["direct", "copy"] {
            let fixture = Fixture::new(kind);
            let mark = fixture.root().join("mark");
            let root = fixture.work_tree.display().to_string();
            let script = PLANTS.replace("MARK", &mark.display().to_string()).replace("ROOT", &root);
            let commit = "git commit -q --allow-empty -m host; git status -s > /dev/null";
            fixture.run(mode, &script);
            let applied = fixture.sandbox(&["apply"]);
            assert_eq!(applied.code, Some(0), "{applied:?}");
            fixture.host(&fixture.work_tree, commit);
            assert_held!(!mark.exists(), "{kind:?} {mode}: {applied:?}");
            let next = fixture.run("direct", &format!("mkdir -p {}; {commit}", fixture.root().display()));
            assert_held!(!next.stderr.contains("mark"), "{kind:?} {mode}: {next:?}");
            assert_eq!(next.code, Some(0), "{kind:?} {mode}: {next:?}");

            // The control: the user applies the setting, or nothing is protected.
            if mode == "copy" {
                let taken = fixture.sandbox(&["apply", "--git-config", "core.hookspath"]);
                assert_eq!(taken.code, Some(0), "{taken:?}");
            } else {
                let common = fixture.host(&fixture.work_tree, "realpath $(git rev-parse --git-common-dir)");
                let common = common.trim();
                let mount = format!("{common}:{common}");
                let hook = script.lines().take(3).collect::<Vec<_>>().join("\n");
                let run = ["run", "--unprotected", "--mount", &mount, "--", "bash", "-c", &hook];
                fixture.sandbox(&run);
            }
            Command::new("bash")
                .args(["-c", commit])
                .current_dir(&fixture.work_tree)
                .env("HOME", fixture.home.path())
                .output()
                .expect("a shell");
            assert!(mark.exists(), "the control: {kind:?} {mode}");
        }
    }
}

/// Attempts to lead the host's git elsewhere while the task runs, each of which prints its exit
/// code, and a hook in a repository without `HEAD`.
const REPLACEMENTS: &str = "common=$(realpath $(git rev-parse --git-common-dir))
    (echo ../../evil > $common/worktrees/elsewhere/commondir) 2> /dev/null; echo $?
    mv $common/worktrees/elsewhere $common/worktrees/x 2> /dev/null; echo $?
    mv $common/worktrees $common/x 2> /dev/null; echo $?
    rm $common/HEAD; mkdir -p $common/hooks; echo 'touch MARK' > $common/hooks/post-commit; chmod +x $common/hooks/post-commit";

#[tokio::test(flavor = "multi_thread")]
async fn pointers_of_host_work_trees_cannot_be_replaced() {
    for kind in [Kind::Clone, Kind::Linked] {
        let fixture = Fixture::new(kind);
        let mark = fixture.root().join("mark");
        let common = fixture.host(&fixture.work_tree, "realpath $(git rev-parse --git-common-dir)");
        let common = Path::new(common.trim());
        fixture.host(common, "rm -r hooks");
        let script = REPLACEMENTS.replace("MARK", &mark.display().to_string());
        let state = "ls -R worktrees; cat HEAD worktrees/*/commondir";
        let before = fixture.host(common, state);
        let ended = fixture.run("direct", &script);
        assert_held!(fixture.host(common, state) == before, "{kind:?}: {ended:?}");
        fixture.host(&fixture.work_tree, "git commit -q --allow-empty -m host");
        assert_held!(!mark.exists(), "{kind:?}: {ended:?}");

        let place = common.display().to_string();
        let mount = format!("{place}:{place}");
        let run = ["run", "--unprotected", "--mount", &mount, "--", "bash", "-c", &script];
        let control = fixture.sandbox(&run);
        assert!(control.stdout.starts_with("0\n"), "the control: {kind:?}: {control:?}");
    }
}

/// The changes of each run are harmless on their own.
#[tokio::test(flavor = "multi_thread")]
async fn repository_assembled_by_several_runs_on_a_copy_is_withheld() {
    let fixture = Fixture::new(Kind::Linked);
    let mark = fixture.root().join("mark");
    let runs = [
        "mkdir $common/evil; cp $common/HEAD $common/evil
         printf '[core]\n\tfsmonitor = \"touch MARK; false\"\n' > $common/evil/config
         for own in w elsewhere; do echo ../../evil > $common/worktrees/$own/commondir; done",
        "mkdir -p $common/evil/objects $common/evil/refs; touch $common/evil/objects/x $common/evil/refs/x",
    ];
    let script = |script: &str| {
        let script = format!("common=$(realpath $(cut -d' ' -f2 .git)/../..); {script}");
        script.replace("MARK", &mark.display().to_string())
    };
    let run_status = || {
        for folder in [fixture.work_tree.clone(), fixture.root().join("elsewhere")] {
            let mut status = Command::new("git");
            status.arg("status").current_dir(folder).env("HOME", fixture.home.path());
            // It may fail in a manipulated repository.
            status.output().expect("git");
        }
    };
    for apply in [&["apply"][..], &["apply", "--include-protected", "--force"]] {
        for run in runs {
            fixture.run("copy", &script(run));
            let applied = fixture.sandbox(apply);
            assert_eq!(applied.code, Some(0), "{applied:?}");
        }
        run_status();
        assert_held!(!mark.exists(), "the host's git ran it");
    }
    fixture.host(&fixture.work_tree, &script(&runs.join("\n")));
    run_status();
    assert!(mark.exists(), "the control");
}

/// A task that could once write `.git` of a linked work tree gains access to no other repository of
/// the user.
#[tokio::test(flavor = "multi_thread")]
async fn work_tree_that_points_to_another_repository_is_refused() {
    let fixture = Fixture::new(Kind::Linked);
    let root = fixture.root().display().to_string();
    let set_pointer = |text: &str| fs::write(fixture.work_tree.join(".git"), text).expect("a file");
    let own = fixture.host(&fixture.work_tree, "cat .git");
    fixture.host(
        &fixture.root(),
        "git clone -q origin other; cd other; git worktree add -q ../others -b others",
    );
    for (text, why) in [
        (format!("gitdir: {root}/other/.git/worktrees/others\n"), "which belongs to"),
        (format!("gitdir: {root}/other/.git\n"), "which is not that of a linked work tree"),
        (format!("gitdir: {root}/m/.git/worktrees/elsewhere\n"), "which belongs to"),
    ] {
        set_pointer(&text);
        for mode in ["direct", "copy"] {
            let ended = fixture.run(mode, "true");
            assert_held!(ended.code != Some(0), "{text}: {ended:?}");
            ended.fails(125, why);
            assert!(ended.stderr.contains("hint: "), "{ended:?}");
        }
    }
    set_pointer(&own);
    fixture.run("direct", "echo gitdir: /x > .git").fails(1, "Read-only file system");
    assert_held!(fixture.host(&fixture.work_tree, "cat .git") == own, "it is read-only");
    assert_eq!(fixture.run("direct", "git status").code, Some(0), "the control");
}
