//! A task's changes in repositories: git itself creates and reads them.
#![expect(clippy::disallowed_methods, reason = "the tests run git")]

use std::process::Command;

use sandbox_host_git::RefOutcome;

use super::super::super::repositories::Repositories;
use super::super::super::state::take_outside;
use super::*;

/// A tree with a repository, a nested one and a submodule, which a task has a copy of.
pub(super) struct Git {
    pub(super) fixture: Fixture,
}

impl Git {
    pub(super) fn new() -> Self {
        Self::with("")
    }

    pub(super) fn with(more: &str) -> Self {
        let git = Self { fixture: Fixture::new() };
        git.host(&format!(
            "git init -q -b main .; echo inner > .gitignore; git add -A; git commit -qm first
             git init -q -b main ../source; git -C ../source commit -q --allow-empty -m source
             git -c protocol.file.allow=always submodule --quiet add ../source sub; git commit -qm sub
             git init -q -b main inner; git -C inner commit -q --allow-empty -m inner; {more}"
        ));
        drop(git.fixture.taken());
        git
    }

    pub(super) fn host(&self, script: &str) -> String {
        run(&self.fixture.tree(), script)
    }

    /// Runs `script` in the copy.
    pub(super) fn work(&self, script: &str) {
        overlaid(&[(self.fixture.tree(), self.fixture.copy())], &self.fixture.tree(), script);
    }

    pub(super) fn apply(&self) -> Applied {
        self.fixture.apply(&ApplyOptions::default()).unwrap()
    }

    pub(super) fn log(&self, of: &str) -> String {
        self.host(&format!("git -C {of} log --format=%s | head -1")).trim().to_owned()
    }
}

/// Runs `script` in `folder`. For each pair, the kernel shows the copy stored in the second folder
/// in place of the tree that is the first.
fn overlaid(copies: &[(PathBuf, PathBuf)], folder: &Path, script: &str) {
    let mounts = copies.iter().map(|(tree, copy)| {
        let ((upper, work), tree) = (overlay_folders(copy), tree.display());
        let (upper, work) = (upper.display(), work.display());
        format!("mount -t overlay overlay -o lowerdir={tree},upperdir={upper},workdir={work} {tree}\n")
    });
    let script = format!("{}cd {}\n{script}", mounts.collect::<String>(), folder.display());
    shell(Path::new("/"), &["unshare", "--mount", "sh", "-ec", &script]);
}

fn run(folder: &Path, script: &str) -> String {
    shell(folder, &["sh", "-ec", script])
}

fn shell(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).env("HOME", "/nonexistent");
    // Background git processes would still hold the layers.
    let foreground = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "maintenance.auto"),
        ("GIT_CONFIG_VALUE_0", "false"),
    ];
    for (name, value) in [("GIT_CONFIG_NOSYSTEM", "1"), ("LC_ALL", "C")].into_iter().chain(foreground) {
        command.env(name, value);
    }
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "A").env(format!("GIT_{who}_EMAIL"), "a@x");
    }
    let done = command.output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

const ALL: &str = "echo new > new; git add new; git commit -qm second; git switch -qc topic
     git -C sub commit -q --allow-empty -m in-sub; git -C inner commit -q --allow-empty -m in-inner
     git config user.name Evil; git config core.hooksPath /evil; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
     git config branch.topic.merge refs/heads/topic; git config branch.topic.remote .";

#[test]
fn commits_of_every_repository_are_imported_without_settings_and_hooks() {
    let git = Git::new();
    let before = git.host("cat .git/modules/sub/config inner/.git/config; ls .git/hooks");
    git.work(ALL);
    git.fixture.task("new", "new\n");
    let shown = git.fixture.opened().git_changes(&Protection::default()).unwrap();
    let paths: Vec<String> = shown.repositories.iter().map(|it| it.path.display().to_string()).collect();
    assert_eq!(paths, ["inner/.git", ".git/modules/sub", ".git"]);
    let applied = git.apply();
    assert_eq!(applied.applied.len(), 1, "{applied:?}");
    assert_eq!([git.log("."), git.log("sub"), git.log("inner")], ["second", "in-sub", "in-inner"]);
    assert_eq!(git.host("git branch --show-current; git status --porcelain"), "topic\n M sub\n");
    assert_eq!(git.host("cat .git/modules/sub/config inner/.git/config; ls .git/hooks"), before);
    let settings = git.host("git config --local --list");
    assert!(settings.contains("branch.topic.remote=.") && !settings.contains("hookspath"), "{settings}");
    git.host("git fsck --strict 2>&1");

    // Waiting settings are taken one by one, until none are left.
    let waiting = git.fixture.opened().git_changes(&Protection::default()).unwrap();
    let keys: Vec<&str> = waiting.settings.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, ["core.hookspath", "user.name"]);
    assert!(waiting.repositories.is_empty(), "{waiting:?}");
    let take = |key: &str| {
        let git_settings = vec![key.to_owned()];
        git.fixture.apply(&ApplyOptions { git_settings, ..ApplyOptions::default() })
    };
    assert!(matches!(take("user.email"), Err(WorkspaceError::NoSetting { .. })));
    take("user.name").unwrap();
    assert_eq!(git.host("git config user.name; git config core.hooksPath || true"), "Evil\n");
    drop(git.fixture.taken());
    assert_eq!(git.fixture.opened().git_changes(&Protection::default()).unwrap().settings.len(), 1);
    take("core.hookspath").unwrap();
    assert_eq!(git.host("git config core.hooksPath"), "/evil\n", "the control");
    assert!(git.fixture.opened_if_any().is_none());
}

#[test]
fn view_that_git_only_read_leaves_nothing() {
    let git = Git::new();
    git.work("touch same; git status -s");
    let changes = git.fixture.opened().git_changes(&Protection::default()).unwrap();
    assert!(changes.is_empty() && git.fixture.changes().is_empty(), "{changes:?}");
    assert_eq!(git.apply(), Applied::default());
    assert!(git.fixture.opened_if_any().is_none());
}

#[test]
fn host_that_commits_meanwhile_keeps_its_branch_and_the_tasks_gets_another_name() {
    let git = Git::new();
    git.work("git commit -q --allow-empty -m task");
    git.host("git commit -q --allow-empty -m host; git gc -q --prune=now");
    let applied = git.apply();
    let change = &applied.git.repositories[0].report.refs[0];
    let RefOutcome::Kept { name, .. } = &change.outcome else { panic!("{change:?}") };
    assert!(name.starts_with("refs/sandbox/copy-"), "{name}");
    assert_eq!(git.log("."), "host");
    assert_eq!(git.host(&format!("git log -1 --format=%s {name}")), "task\n");
}

#[test]
fn host_changes_between_two_runs_on_a_copy_are_not_the_tasks() {
    let git = Git::new();
    git.work("git commit -q --allow-empty -m task");
    git.host("git commit -q --allow-empty -m host");
    drop(git.fixture.taken());
    git.work("git commit -q --allow-empty -m again");
    git.apply();
    assert_eq!(git.log("."), "host");
    let kept = git.host("git for-each-ref --format='%(refname)' refs/sandbox");
    assert_eq!(git.host(&format!("git log --format=%s -2 {}", kept.trim())), "again\ntask\n");
}

#[test]
fn protected_file_that_git_recorded_withholds_only_its_work_tree_and_repository() {
    let git = Git::new();
    git.work("echo x > .envrc; git add .envrc; git commit -qm envrc; git -C inner commit -q --allow-empty -m in-inner");
    git.fixture.task(".envrc", "x\n");
    git.fixture.task("edited", "x");
    let shown = git.fixture.opened().git_changes(&Protection::default()).unwrap();
    let waits: Vec<bool> = shown.repositories.iter().map(|it| it.waits).collect();
    assert_eq!(waits, [false, true], "{shown:?}");
    let applied = git.apply();
    assert_eq!((applied.applied.len(), applied.withheld.len()), (0, 2), "{applied:?}");
    assert_eq!([git.log("."), git.log("inner")], ["sub", "in-inner"]);
    // It remains, with its state at the start, after another run.
    drop(git.fixture.taken());
    let all = ApplyOptions { include_withheld: true, ..ApplyOptions::default() };
    git.fixture.apply(&all).unwrap();
    assert_eq!(git.host("git log -1 --format=%s; git status --porcelain"), "envrc\n M edited\n");
    assert!(git.fixture.opened_if_any().is_none());

    // The control: files that git did not record withhold nothing.
    let git = Git::new();
    git.work("git commit -q --allow-empty -m task");
    git.fixture.task(".envrc", "x\n");
    assert_eq!(git.apply().withheld.len(), 1);
    assert_eq!(git.log("."), "task");
}

#[test]
fn repository_created_by_a_task_is_created_again_on_request() {
    let git = Git::new();
    git.work(
        "git init -q -b first made; cd made; echo m > m; git add m; git commit -qm made; git tag v1
         git config core.fsmonitor /evil; echo evil > .git/hooks/post-commit; echo evil > .git/info/attributes; echo s >> m; git add m",
    );
    let applied = git.apply();
    let held: Vec<_> = applied.withheld.iter().map(|change| (&*change.path, change.withheld)).collect();
    assert_eq!(held, [(Path::new("made/.git"), Some(Withheld::Repository))]);
    assert!(git.fixture.tree().join("made/m").exists() && !git.fixture.tree().join("made/.git").exists());
    let all = ApplyOptions { include_withheld: true, ..ApplyOptions::default() };
    git.fixture.apply(&all).unwrap();
    assert_eq!(
        git.host("cd made; git log --format=%s; git branch --show-current; git tag; git status --porcelain"),
        "made\nfirst\nv1\nM  m\n"
    );
    let files =
        git.host("cd made/.git; ls; ls hooks info 2>/dev/null || true; cat config; git fsck --strict");
    assert!(!files.contains("hooks") && !files.contains("evil") && !files.contains("attributes"), "{files}");
    assert!(git.fixture.opened_if_any().is_none());
}

/// The state without commit ids, which differ between runs.
fn git_state(git: &Git) -> String {
    let refs = "git for-each-ref --format='%(refname) %(subject)' | sed 's/copy-[0-9a-f]*/RUN/'; git symbolic-ref HEAD; git config --local --list | grep -v url=";
    let of = |folder: &str| {
        run(&git.fixture.tree().join(folder), &format!("{refs}; git ls-files -s | cut -d' ' -f1,3"))
    };
    of(".") + &of("sub") + &of("inner")
}

#[test]
fn crash_at_any_point_applies_files_and_repositories_all_or_nothing() {
    let git = Git::new();
    git.work(ALL);
    git.fixture.task("new", "new\n");
    git.fixture.task("edited", "new content");
    let folder = git.fixture.folder.path();
    run(folder, "mkdir saved; cp -a host copy saved");
    // Both git and the copy see every file of the host as a different one then.
    let options = ApplyOptions { force: true, ..ApplyOptions::default() };
    let undone = git_state(&git);
    git.fixture.apply(&options).unwrap();
    let done = git_state(&git);
    let mut ends = [0, 0];
    for point in 1.. {
        run(folder, "rm -rf host copy; cp -a saved/. .");
        let mut left = point;
        let applied = {
            let comparison = git.fixture.opened().comparison().unwrap();
            apply(&comparison, &git.fixture.copy(), &options, &mut |_| {
                left -= usize::from(left > 0);
                left > 0
            })
        };
        let copy = git.fixture.opened();
        let is_there = git.fixture.tree().join("new").exists();
        assert_eq!(git_state(&git), if is_there { done.clone() } else { undone.clone() }, "{point}");
        assert_eq!(fs::read_to_string(git.fixture.tree().join("edited")).unwrap() == "new content", is_there);
        if is_there {
            assert_eq!(copy.git_changes(&Protection::default()).unwrap().settings.len(), 2, "{point}");
        } else {
            copy.apply(&options).unwrap();
            assert_eq!(git_state(&git), done, "{point}");
        }
        ends[usize::from(is_there)] += 1;
        if applied.is_ok() {
            break;
        }
    }
    assert!(ends[0] > 2 && ends[1] > 4, "both ends were reached: {ends:?}");
}

#[test]
fn failed_import_stops_everything_and_partial_import_is_continued() {
    let worked = || {
        let git = Git::new();
        git.work(ALL);
        git.fixture.task("new", "new\n");
        git
    };
    // Another process has locked the index: nothing was written yet.
    let git = worked();
    let list = "find . -path ./inner/.git -prune -o -print | sort";
    let (before, tree) = (git_state(&git), git.host(list));
    let config = git.fixture.tree().join("inner/.git/config");
    let text = fs::read(&config).unwrap();
    fs::write(&config, "[extensions]\n objectformat = sha3\n").unwrap();
    let failed = git.fixture.apply(&ApplyOptions::default());
    assert!(matches!(failed, Err(WorkspaceError::Repository { .. })), "{failed:?}");
    fs::write(&config, text).unwrap();
    assert_eq!((git_state(&git), git.host(list)), (before, tree));

    // The last of three repositories cannot be written to: the finished imports remain, and the
    // next command continues.
    let lock = git.fixture.tree().join(".git/refs/heads/topic.lock");
    fs::write(&lock, "").unwrap();
    let failed = git.fixture.apply(&ApplyOptions::default());
    assert!(matches!(failed, Err(WorkspaceError::Unfinished { .. })), "{failed:?}");
    assert!(WorkspaceCopy::open(git.fixture.copy()).is_err(), "it cannot yet");
    fs::remove_file(&lock).unwrap();
    let copy = git.fixture.opened();
    assert_eq!([git.log("."), git.log("sub"), git.log("inner")], ["second", "in-sub", "in-inner"]);
    assert!(git.fixture.tree().join("new").exists() && !git.fixture.upper().join(".git/hooks").exists());
    copy.discard().unwrap();
}

#[test]
fn copy_keeps_refs_and_index_of_its_beginning_until_a_task_without_git() {
    let git = Git::new();
    let query = "git for-each-ref; git status --porcelain; cat .git/HEAD";
    let move_on = "git branch -f moved; git commit -q --allow-empty -m host; git branch -D -q moved; git pack-refs --all";
    let before = git.host(query);
    let seen = git.fixture.folder.path().join("seen");
    let look = format!("({query}) > {}", seen.display());
    git.host(move_on);
    assert_ne!(git.host(query), before, "the control");
    git.work(&format!("git gc -q; {look}"));
    assert_eq!(fs::read_to_string(&seen).unwrap(), before);
    assert!(git.fixture.opened().git_changes(&Protection::default()).unwrap().is_empty());
    git.fixture.opened().discard().unwrap();
    // The next task continues with the last one's git state, or with the host's present one.
    for (task, sees_host) in [("echo x > .git/note", false), ("true", true)] {
        drop(git.fixture.taken());
        git.work(task);
        git.host(move_on);
        drop(git.fixture.taken());
        git.work(&look);
        assert_eq!(fs::read_to_string(&seen).unwrap() == git.host(query), sees_host, "{task}");
        git.fixture.opened().discard().unwrap();
    }
}

#[test]
fn start_killed_between_record_and_layer_changes_nothing_on_the_host() {
    let git = Git::new();
    let query = "git for-each-ref; git status --porcelain; cat .git/HEAD";
    let before = git.host(query);
    fs::remove_dir_all(git.fixture.upper().join(".git")).unwrap();
    assert!(git.fixture.opened().git_changes(&Protection::default()).unwrap().is_empty());
    git.apply();
    assert_eq!(git.host(query), before);
    // The next task sees the host's state again, and its changes are imported.
    drop(git.fixture.taken());
    git.work("git commit -q --allow-empty -m task");
    git.apply();
    assert_eq!(git.log("."), "task");
}

#[test]
fn repository_of_a_task_is_kept_if_the_host_creates_one_in_its_place() {
    let git = Git::new();
    let clone = "git clone -q --bare ../source .git/modules/more";
    git.work(&format!("{clone}; git -C .git/modules/more tag task"));
    git.host(clone);
    for _ in 0..2 {
        drop(git.fixture.taken());
        assert!(git.fixture.upper().join(".git/modules/more/refs/tags/task").exists());
        let changes = git.fixture.opened().git_changes(&Protection::default()).unwrap();
        let paths: Vec<&Path> = changes.repositories.iter().map(|it| it.path.as_path()).collect();
        assert!(paths.contains(&Path::new(".git/modules/more")), "{paths:?}");
    }
    git.apply();
    assert_eq!(git.host("git -C .git/modules/more log -1 --format=%s task"), "source\n");
}

#[test]
fn submodule_of_an_unsupported_repository_is_not_a_change_of_the_task() {
    let git =
        Git::with("git init -q --ref-format=reftable odd; git clone -q --bare ../source odd/.git/modules/x");
    for _ in 0..2 {
        assert!(git.fixture.upper().join("odd/.git/modules/x/HEAD").exists(), "the control");
        assert_eq!(git.fixture.changes(), <[&str; 0]>::default());
        drop(git.fixture.taken());
    }
}

#[test]
fn folders_around_a_repository_removed_by_the_host_go_with_the_next_task() {
    let git = Git::with(
        "mkdir -p deep/er; git init -q -b main deep/er; git -C deep/er commit -q --allow-empty -m x",
    );
    git.host("rm -rf deep");
    drop(git.fixture.taken());
    assert_eq!(git.fixture.changes(), <[&str; 0]>::default());
    assert!(!git.fixture.upper().join("deep").exists());
}

#[test]
fn repository_removed_by_the_host_is_not_a_change_of_the_task() {
    let git = Git::with(
        "mkdir -p deep/er; git init -q -b main deep/er; git -C deep/er commit -q --allow-empty -m x",
    );
    git.host("rm -rf deep inner/.git; echo x > inner/left");
    assert_eq!(git.fixture.changes(), <[&str; 0]>::default());
    let changes = git.fixture.opened().git_changes(&Protection::default()).unwrap();
    assert!(changes.is_empty(), "{changes:?}");
    git.work("mkdir -p deep/er; echo x > deep/er/new");
    assert_eq!(git.fixture.changes(), ["A deep", "A deep/er", "A deep/er/new"], "the control");
}

#[test]
fn unsupported_repository_is_refused_before_a_task_begins() {
    let fixture = Fixture { folder: tempfile::tempdir().unwrap() };
    fs::create_dir(fixture.tree()).unwrap();
    run(&fixture.tree(), "git init -q --ref-format=reftable .");
    let begun = WorkspaceCopy::take(&fixture.tree(), &fixture.copy()).unwrap().wait();
    assert!(matches!(begun, Err(WorkspaceError::Repository { .. })), "{begun:?}");
    run(&fixture.tree(), "rm -rf .git; git init -q .");
    drop(fixture.taken());
    assert!(Repositories::read(&fixture.copy()).unwrap().contains(Path::new(".git")), "the control");
}

/// A linked work tree, whose repository is stored outside it, and a task's views of both.
struct Linked {
    folder: TempDir,
}

impl Linked {
    fn new() -> Self {
        let linked = Self { folder: tempfile::tempdir().unwrap() };
        linked.run(
            "mkdir m; git init -q -b main m; cd m; echo a > a; git add a; git commit -qm first; git worktree add -q ../w -b work",
        );
        linked.take();
        linked
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn run(&self, script: &str) -> String {
        run(&self.at(""), script)
    }

    fn take(&self) {
        let mut copy = WorkspaceCopy::take(&self.at("w"), &self.at("copy")).unwrap();
        copy.wait().unwrap();
        take_outside(&self.at("m/.git"), Path::new("worktrees/w"), &self.at("copy/git")).unwrap();
    }

    /// Runs `script` in the task's views.
    fn work(&self, script: &str) {
        let copies = [(self.at("w"), self.at("copy")), (self.at("m/.git"), self.at("copy/git"))];
        overlaid(&copies, &self.at("w"), script);
    }

    fn apply(&self, options: &ApplyOptions) -> Applied {
        WorkspaceCopy::open(self.at("copy")).unwrap().unwrap().apply(options).unwrap()
    }
}

#[test]
fn repository_of_a_linked_work_tree_is_imported_and_other_work_trees_are_unchanged() {
    let linked = Linked::new();
    linked.work("echo b > b; git add b; git commit -qm task; git branch more; git config user.name Evil; echo evil > ../m/.git/hooks/post-commit");
    let applied = linked.apply(&ApplyOptions::default());
    assert_eq!(applied.applied.len(), 1, "{applied:?}");
    assert_eq!(
        linked.run("cd w; git log -1 --format=%s more; git status --porcelain; git branch --show-current"),
        "task\nwork\n"
    );
    let main = linked
        .run("cd m; git log -1 --format=%s; git status --porcelain; ls .git/hooks | grep -v sample || true");
    assert_eq!(main, "first\n");
    // The setting waits, and the imported changes are no longer in the view.
    let copy = WorkspaceCopy::open(linked.at("copy")).unwrap().unwrap();
    let waits = copy.git_changes(&Protection::default()).unwrap();
    assert_eq!((waits.repositories.len(), waits.settings.len()), (0, 1), "{waits:?}");
    assert!(!linked.at("copy/git").exists());
    copy.discard().unwrap();
    assert!(WorkspaceCopy::open(linked.at("copy")).unwrap().is_none());
}

#[test]
fn next_task_after_one_without_git_sees_the_current_outside_repository() {
    let linked = Linked::new();
    for (task, is_seen) in [("echo x > x", "="), ("git tag x", "!=")] {
        linked.work(task);
        linked.run("cd w; git commit -q --allow-empty -m host");
        linked.take();
        let host = linked.run("git -C w rev-parse HEAD");
        linked.work(&format!("test $(git rev-parse HEAD) {is_seen} {host}"));
    }
}

#[test]
fn outside_repository_waits_with_a_protected_file_that_git_recorded() {
    let linked = Linked::new();
    linked.work("echo x > .envrc; git add .envrc; git commit -qm envrc");
    let applied = linked.apply(&ApplyOptions::default());
    assert!(applied.applied.is_empty() && applied.withheld.len() == 1, "{applied:?}");
    linked.run("cd w; git commit -q --allow-empty -m host; git branch -q other");
    // The next run continues with it; the host's changes meanwhile are not attributed to the task.
    linked.take();
    linked.apply(&ApplyOptions { include_withheld: true, ..ApplyOptions::default() });
    assert_eq!(linked.run("cd w; git log -1 --format=%s; cat .envrc"), "host\nx\n");
    let refs = linked.run("cd w; git for-each-ref --format='%(refname) %(subject)'");
    assert!(refs.contains("/heads/work envrc\n") && refs.contains("refs/heads/other host\n"), "{refs}");
}

#[test]
fn branches_of_several_copies_of_one_tree_are_imported_while_the_host_works() {
    let git = Git::new();
    let copies = ["one", "two", "three", "four"];
    let copy = |name: &str| git.fixture.folder.path().join(name);
    for name in copies {
        let mut taken = WorkspaceCopy::take(&git.fixture.tree(), &copy(name)).unwrap();
        taken.wait().unwrap();
        drop(taken);
        overlaid(
            &[(git.fixture.tree(), copy(name))],
            &git.fixture.tree(),
            &format!(
                "git commit -q --allow-empty -m main-{name}; git switch -qc {name}; echo {name} > {name}; git add {name}; git commit -qm {name}"
            ),
        );
        git.host(&format!("git commit -q --allow-empty -m host-{name}"));
    }
    for name in copies {
        WorkspaceCopy::open(copy(name)).unwrap().unwrap().apply(&ApplyOptions::default()).unwrap();
        git.host("git gc -q --prune=now");
        assert_eq!(
            git.host(&format!("git log -1 --format=%s {name} --; cat {name}")),
            format!("{name}\n{name}\n")
        );
    }
    let all = git.host("git log --all --format=%s");
    for name in copies {
        assert!(all.contains(&format!("main-{name}\n")) && all.contains(&format!("host-{name}\n")), "{all}");
    }
    git.host("git fsck --strict");
}

#[test]
fn inspection_and_failed_apply_leave_only_the_tasks_changes_in_the_copy() {
    let git = Git::new();
    git.work("echo new > new; git add new; git commit -qm second");
    let names = || {
        let entries = fs::read_dir(git.fixture.copy()).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>()
    };
    let before = names();
    let shown = git.fixture.opened().git_changes(&Protection::default()).unwrap();
    assert_eq!(shown.repositories.len(), 1, "the control: {shown:?}");
    assert_eq!(names(), before);
    // The remains of a killed import.
    fs::create_dir_all(git.fixture.copy().join("discarded-1/new-1")).unwrap();
    git.host("touch .git/index.lock");
    git.fixture.apply(&ApplyOptions::default()).unwrap_err();
    assert_eq!(names(), before);
    git.host("rm .git/index.lock");
    git.apply();
    assert_eq!(git.log("."), "second");
}
