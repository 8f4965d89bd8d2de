//! A task that works on the tree itself, with a kernel overlay over each repository.
#![expect(clippy::disallowed_methods, reason = "the tests run git")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox_host_git::RefOutcome;
use tempfile::TempDir;

use super::super::mount::Mount;
use super::super::overlay::overlay_folders;
use super::super::protection::Protection;
use super::super::watch::Watch;
use super::{GitChanges, Patience, Views, recover};

/// A tree with a repository, a nested one and a submodule.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(fixture.tree()).unwrap();
        fixture.host(
            "git init -q -b main .; echo inner > .gitignore; git add -A; git commit -qm first; git branch side
             git init -q -b main ../source; git -C ../source commit -q --allow-empty -m source
             git -c protocol.file.allow=always submodule --quiet add ../source sub; git commit -qm sub
             git init -q -b main inner; git -C inner commit -q --allow-empty -m inner",
        );
        fixture
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn tree(&self) -> PathBuf {
        self.at("tree")
    }

    fn host(&self, script: &str) -> String {
        run(&self.tree(), script)
    }

    fn views(&self) -> PathBuf {
        self.at("views")
    }

    /// The mounts of an execution called `name`, and the host's hold on them.
    fn begin(&self, name: &str, mounts: Vec<Mount>) -> (Vec<Mount>, Watch, Views) {
        let mut views = Views::new(Some(self.views().join(name)));
        let (mounts, watch) = Watch::begin(mounts, self.at("quarantine"), &mut views).unwrap();
        (mounts, watch, views)
    }

    fn began(&self, name: &str) -> (Vec<Mount>, Watch, Views) {
        self.begin(name, vec![Mount::read_write(self.tree(), "/workspace").protected(Protection::default())])
    }

    /// The changes of `script`, run in the tree by an execution called `name`; nothing may be
    /// tampered with.
    fn executed(&self, name: &str, script: &str) -> GitChanges {
        let (mounts, watch, views) = self.began(name);
        work(&mounts, &self.tree(), script);
        let mut git = GitChanges::default();
        let tampered = watch.end(|| git = views.end(true));
        assert!(tampered.is_empty(), "{tampered:?}");
        git
    }
}

/// Runs `script` in `folder`, where the kernel shows views in place of their repositories.
fn work(mounts: &[Mount], folder: &Path, script: &str) {
    let overlays = mounts.iter().filter_map(|mount| {
        let ((upper, work), lower) = (overlay_folders(mount.copy_dir()?), mount.host_path().display());
        let (upper, work) = (upper.display(), work.display());
        Some(format!(
            "mount -t overlay overlay -o lowerdir={lower},upperdir={upper},workdir={work} {lower}\n"
        ))
    });
    let script = format!("{}cd {}\n{script}", overlays.collect::<String>(), folder.display());
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

fn paths(fixture: &Fixture, git: &GitChanges) -> Vec<String> {
    let paths = git.repositories.iter().map(|it| it.path.strip_prefix(fixture.tree()).unwrap());
    paths.map(|path| path.display().to_string()).collect()
}

const ALL: &str = "echo new > new; git add new; git commit -qm second; git switch -qc topic
     git -C sub commit -q --allow-empty -m in-sub; git -C inner commit -q --allow-empty -m in-inner
     git config user.name Evil; git config core.hooksPath /evil; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit";

#[test]
fn commits_of_every_repository_are_imported_after_the_execution_without_settings_and_hooks() {
    let fixture = Fixture::new();
    let kept = "cat .git/config .git/modules/sub/config inner/.git/config; ls .git .git/hooks";
    let before = fixture.host(kept);
    let git = fixture.executed("run-1", ALL);
    assert_eq!(paths(&fixture, &git), [".git/modules/sub", ".git", "inner/.git"]);
    assert!(git.failed.is_empty(), "{git:?}");
    let log = |of: &str| fixture.host(&format!("git -C {of} log --format=%s | head -1")).trim().to_owned();
    assert_eq!([log("."), log("sub"), log("inner")], ["second", "in-sub", "in-inner"]);
    assert_eq!(fixture.host("git branch --show-current; git status --porcelain"), "topic\n M sub\n");
    assert_eq!(fixture.host(kept), before);
    fixture.host("git fsck --strict 2>&1");
    assert_eq!(fs::read_dir(fixture.views()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn execution_without_git_changes_and_leaves_nothing() {
    let fixture = Fixture::new();
    let git = fixture.executed("run-1", "echo x > file; git status > /dev/null; git log > /dev/null");
    assert!(git.is_empty(), "{git:?}");
    assert_eq!(fs::read_dir(fixture.views()).unwrap().count(), 0);
}

#[test]
fn branch_moved_by_the_host_remains_and_the_tasks_is_named_after_the_run() {
    let fixture = Fixture::new();
    let (mounts, watch, views) = fixture.began("run-1");
    work(&mounts, &fixture.tree(), "git branch -f side HEAD; git branch new");
    fixture.host("git branch -f side $(git commit-tree -m host HEAD^{tree}); git config user.email host@x");
    let mut git = GitChanges::default();
    assert!(watch.end(|| git = views.end(true)).is_empty(), "the host's own configuration is not reported");
    let outcomes: Vec<&RefOutcome> = git.repositories[0].report.refs.iter().map(|it| &it.outcome).collect();
    assert!(
        outcomes
            .iter()
            .any(|it| matches!(it, RefOutcome::Kept { name, .. } if name == "refs/sandbox/run-1/heads/side")),
        "{outcomes:?}"
    );
    assert_eq!(
        fixture.host(
            "git log -1 --format=%s side; git rev-parse --verify -q new >/dev/null; git config user.email"
        ),
        "host\nhost@x\n"
    );
}

#[test]
fn views_of_a_killed_program_are_imported_once_and_other_views_are_untouched() {
    let fixture = Fixture::new();
    let (mounts, watch, views) = fixture.began("killed");
    work(&mounts, &fixture.tree(), "git commit -q --allow-empty -m lost; git branch topic");
    let (_, _watch, _living) = fixture.began("alive");
    assert!(recover(&fixture.views(), Patience::Start).is_empty(), "both live");
    drop((watch, views));
    let git = recover(&fixture.views(), Patience::Start);
    assert_eq!(paths(&fixture, &git), [".git"]);
    assert_eq!(fixture.host("git log -1 --format=%s; git branch -D -q topic"), "lost\n");
    assert!(recover(&fixture.views(), Patience::Start).is_empty(), "once");
    let left: Vec<_> =
        fs::read_dir(fixture.views()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["alive"]);
}

#[test]
fn nothing_is_imported_while_the_container_may_still_run() {
    let fixture = Fixture::new();
    let (mounts, watch, views) = fixture.began("run-1");
    work(&mounts, &fixture.tree(), "git branch topic");
    let mut git = GitChanges::default();
    watch.end(|| git = views.end(false));
    assert!(git.repositories.is_empty() && git.failed.len() == 2, "{git:?}");
    assert!(recover(&fixture.views(), Patience::Start).is_empty(), "this program lives");
    assert_eq!(fixture.host("git branch --list topic"), "");
    let (mounts, watch, views) = fixture.began("run-2");
    work(&mounts, &fixture.tree(), "git log > /dev/null");
    let mut git = GitChanges::default();
    watch.end(|| git = views.end(false));
    assert!(git.is_empty(), "nothing was used: {git:?}");
}

#[test]
fn failed_import_reports_the_cause_and_keeps_the_view_for_the_next_sweep() {
    let fixture = Fixture::new();
    let (mounts, watch, views) = fixture.began("run-1");
    work(&mounts, &fixture.tree(), "git -C inner branch topic; git branch topic");
    // A task can rename the folder of a repository, and put another one in its place.
    fixture.host("mv inner away; git init -q inner");
    let mut git = GitChanges::default();
    watch.end(|| git = views.end(true));
    assert_eq!(paths(&fixture, &git), [".git"], "the others come");
    assert_eq!(git.failed.len(), 1);
    assert_eq!(git.failed[0].path, fixture.tree().join("inner/.git"));
    assert!(git.failed[0].problem.contains("not where it was"), "{git:?}");
    assert!(git.failed[0].kept_in.join("upper").is_dir());
    assert_eq!(fixture.host("git -C inner branch --list topic"), "");
    fixture.host("rm -rf inner; mv away inner; git branch -D -q topic");
    // An import that took long is not retried before something else begins.
    let slow = git.failed[0].kept_in.join("slow");
    fs::write(&slow, "").unwrap();
    let waits = recover(&fixture.views(), Patience::Start);
    assert!(
        waits.repositories.is_empty() && waits.failed[0].problem.contains("took long to fail before"),
        "{waits:?}"
    );
    assert_eq!(paths(&fixture, &recover(&fixture.views(), Patience::Whole)), ["inner/.git"]);
    assert_eq!(fixture.host("git -C inner branch --list topic; git branch --list topic"), "  topic\n");
    assert_eq!(fs::read_dir(fixture.views()).unwrap().count(), 0);
}

#[test]
fn failed_import_leaves_only_the_tasks_changes_in_the_view() {
    let object = "f=.git/objects/$(git rev-parse main~1 | sed 's,..,&/,')";
    for (breaks, repairs) in [
        // One fails during the write, the other during the check.
        ("touch .git/index.lock".to_owned(), "rm .git/index.lock".to_owned()),
        (format!("{object}; mv $f ../gone"), format!("{object}; mv ../gone $f")),
    ] {
        let fixture = Fixture::new();
        let (mounts, watch, views) = fixture.began("run-1");
        // When a commit is refused, the host's commits are examined.
        let tree = "printf '100644 blob %s\\t..\\n' $(git hash-object new) | git mktree";
        let refused = format!("git branch bad $(git commit-tree -m bad $({tree}))");
        work(
            &mounts,
            &fixture.tree(),
            &format!("echo new > new; git add new; git commit -qm second; {refused}"),
        );
        fixture.host(&breaks);
        let mut git = GitChanges::default();
        watch.end(|| git = views.end(true));
        assert_eq!(git.failed.len(), 1, "{git:?}");
        let names = || {
            let entries = fs::read_dir(&git.failed[0].kept_in).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["upper", "view.json", "work"], "{git:?}");
        // The remains of a killed import are removed too.
        fs::create_dir_all(git.failed[0].kept_in.join("discarded-1/new-1")).unwrap();
        assert_eq!(recover(&fixture.views(), Patience::Start).failed.len(), 1);
        assert_eq!(names(), ["upper", "view.json", "work"]);
        fixture.host(&repairs);
        assert_eq!(paths(&fixture, &recover(&fixture.views(), Patience::Start)), [".git"]);
        assert_eq!(fs::read_dir(fixture.views()).unwrap().count(), 0);
    }
}

#[test]
fn protected_version_that_only_git_has_is_named_in_a_hint() {
    for (script, expected) in [
        ("echo evil > .envrc; git add .envrc; git commit -qm x; rm .envrc", true),
        ("echo evil > .envrc; git add .envrc; git commit -qm x; git rm -q --cached .envrc; rm .envrc", true),
        ("echo evil > .envrc; git add .envrc; rm .envrc", true),
        // A new file is moved away.
        ("echo evil > .envrc; git add .envrc; git commit -qm x", true),
        ("echo good > file; git add file; git commit -qm x", false),
    ] {
        let fixture = Fixture::new();
        let (mounts, watch, views) = fixture.began("run-1");
        work(&mounts, &fixture.tree(), script);
        let mut git = GitChanges::default();
        watch.end(|| git = views.end(true));
        let hints = git.repositories.iter().flat_map(|it| it.report.hints.clone()).collect::<String>();
        assert_eq!(hints.contains("`.envrc`"), expected, "{script}: {git:?}");
    }
}

#[test]
fn repository_without_a_possible_view_is_read_only() {
    let fixture = Fixture::new();
    fixture.host("git init -q -b main 'odd,name'; git -C 'odd,name' commit -q --allow-empty -m x");
    let (mounts, _watch, _views) = fixture.began("run-1");
    let at = |place: &str| mounts.iter().find(|mount| mount.container_path() == place).unwrap();
    assert!(at("/workspace/odd,name/.git").read_only());
    assert!(at("/workspace/.git").copy_dir().is_some() && at("/workspace/inner/.git").copy_dir().is_some());
    let mut none = Views::new(None);
    let mount = Mount::read_write(fixture.tree(), "/workspace").protected(Protection::default());
    let (mounts, _watch) = Watch::begin(vec![mount], fixture.at("quarantine"), &mut none).unwrap();
    let all: Vec<&Mount> = mounts.iter().filter(|it| it.container_path().ends_with("/.git")).collect();
    assert!(all.len() == 3 && all.iter().all(|mount| mount.read_only()), "{mounts:?}");
}

#[test]
fn commits_on_a_branch_packed_by_host_and_task_are_imported() {
    for host in ["git pack-refs --all", "git gc -q --prune=now"] {
        let fixture = Fixture::new();
        // Outside the task's mounts.
        let host = format!("nsenter -t $PPID -m sh -ec 'cd {}; {host}'", fixture.tree().display());
        let task =
            "git switch -q side; git commit -q --allow-empty -m two; git switch -q main; git pack-refs --all";
        let git = fixture.executed("run-1", &format!("{host}; {task}; {host}; git gc -q"));
        assert_eq!(fixture.host("git log -1 --format=%s side"), "two\n", "{git:?}");
        // Changes by the host alone are not attributed to the task.
        let git = fixture.executed("run-2", &format!("{host}; git pack-refs --all"));
        assert!(git.is_empty(), "{git:?}");
    }
}

#[test]
fn host_changes_during_a_task_are_not_seen_and_not_attributed_to_it() {
    let fixture = Fixture::new();
    let query = "git for-each-ref; git diff --cached --name-only";
    let before = fixture.host(query);
    let host = "git branch -D -q side; git branch hosts; echo x > staged; git add staged; git commit -q --allow-empty -m host; git add -N .gitignore";
    let seen = fixture.at("seen");
    let host = format!("nsenter -t $PPID -m sh -ec 'cd {}; {host}'", fixture.tree().display());
    let git = fixture.executed("run-1", &format!("{host}; git gc -q; ({query}) > {}", seen.display()));
    assert_eq!(fs::read_to_string(&seen).unwrap(), before);
    assert_ne!(fixture.host(query), before, "the control");
    assert!(git.is_empty(), "{git:?}");
    assert_eq!(fixture.host("git branch --list side hosts; git log -1 --format=%s"), "  hosts\nhost\n");
}

#[test]
fn merge_begun_by_the_host_is_not_ended_by_a_commit_of_the_task() {
    let fixture = Fixture::new();
    fixture.host("git switch -q side; echo x > of-side; git add of-side; git commit -qm side; git switch -q main; git commit -q --allow-empty -m main");
    let host = format!(
        "nsenter -t $PPID -m git -C {} merge -q --no-commit --no-ff side 1>&2; test -e .git/MERGE_HEAD && exit 1",
        fixture.tree().display()
    );
    let git = fixture.executed("run-1", &format!("{host}; git commit -q --allow-empty -m task"));
    assert!(fixture.tree().join(".git/MERGE_HEAD").exists(), "the control");
    assert!(git.failed.is_empty(), "{git:?}");
    let parents = "git log -1 --format=%s:%p --all --grep=task | grep -c ' ' || true";
    assert_eq!(fixture.host(parents), "0\n");
}

#[test]
fn gc_in_a_view_packs_only_new_objects() {
    let fixture = Fixture::new();
    fixture.host("git gc -q");
    let (mounts, watch, views) = fixture.began("run-1");
    let packed = |also: &str| {
        work(&mounts, &fixture.tree(), &format!("{also}; git commit -q --allow-empty -m two; git gc -q"));
        let upper = overlay_folders(mounts.iter().find_map(Mount::copy_dir).unwrap()).0;
        // Devices of the same names hide those of the host.
        let count =
            "for p in $(find objects/pack -name '*.idx' -type f); do git show-index < $p; done | wc -l";
        run(&upper, count).trim().parse::<usize>().unwrap()
    };
    assert_eq!(packed("true"), 1);
    let all = packed("find .git/objects/pack -name '*.keep' -delete");
    assert!(all > 5, "the control: {all}");
    let mut git = GitChanges::default();
    assert!(watch.end(|| git = views.end(true)).is_empty());
    assert_eq!(
        fixture.host(
            "git log -1 --format=%s; git fsck --strict 2>&1; ls .git/objects/pack/*.keep 2>/dev/null || true"
        ),
        "two\n"
    );
}

#[test]
fn repository_writable_by_another_run_is_read_only_until_that_ends() {
    let fixture = Fixture::new();
    let is_view = |mounts: &[Mount], place: &str| {
        let mount = mounts.iter().find(|mount| mount.container_path() == place).unwrap();
        assert_ne!(mount.copy_dir().is_some(), mount.read_only());
        mount.copy_dir().is_some()
    };
    let (_, watch, mut first) = fixture.began("run-1");
    first.announce(vec![fixture.tree()]).unwrap();
    fixture.host("git init -q -b main new; git -C new commit -q --allow-empty -m new; mv inner gone; git clone -q gone inner");
    let (mounts, ..) = fixture.began("run-2");
    assert!(is_view(&mounts, "/workspace/.git"), "both have a view of it");
    assert!(!is_view(&mounts, "/workspace/new/.git") && !is_view(&mounts, "/workspace/inner/.git"));
    watch.end(|| drop(first.end(true)));
    let (mounts, ..) = fixture.began("run-3");
    assert!(is_view(&mounts, "/workspace/new/.git") && is_view(&mounts, "/workspace/inner/.git"));
}

#[test]
fn repositories_above_the_view_limit_are_read_only_and_too_many_refuse_the_run() {
    let fixture = Fixture::new();
    fixture.host("for n in $(seq 60); do mkdir -p deep/$n; git init -q deep/$n; done");
    let (mounts, ..) = fixture.began("run-1");
    let of_git = || mounts.iter().filter(|mount| mount.container_path().ends_with("/.git"));
    assert_eq!(of_git().filter(|mount| mount.copy_dir().is_some()).count(), 50);
    assert!(of_git().count() == 62 && of_git().all(|mount| mount.copy_dir().is_some() || mount.read_only()));
    fixture.host("cd deep; for n in $(seq 100 600); do cp -r 1 $n; done");
    let mount = Mount::read_write(fixture.tree(), "/workspace").protected(Protection::default());
    let error = Watch::begin(vec![mount], fixture.at("quarantine"), &mut Views::new(None)).unwrap_err();
    assert!(error.to_string().contains("563 git repositories"), "{error}");
}

#[test]
fn repository_in_two_mounts_is_writable_through_one_view_only() {
    let fixture = Fixture::new();
    let again = Mount::read_write(fixture.tree(), "/again").protected(Protection::default());
    let around = Mount::read_write(fixture.at(""), "/around");
    let first = Mount::read_write(fixture.tree(), "/workspace").protected(Protection::default());
    let (mounts, _watch, _views) = fixture.begin("run-1", vec![first, again, around]);
    for place in ["/again/.git", "/around/tree/.git", "/again/inner/.git"] {
        let found: Vec<&Mount> = mounts.iter().filter(|mount| mount.container_path() == place).collect();
        assert!(found.len() == 1 && found[0].read_only(), "{place}: {found:?}");
    }
    assert_eq!(mounts.iter().filter(|mount| mount.copy_dir().is_some()).count(), 2);
}

#[test]
fn hook_of_a_viewed_repository_with_a_second_name_in_the_tree_is_restored() {
    let fixture = Fixture::new();
    fixture.host("mkdir tools; echo good > tools/hook; ln tools/hook .git/hooks/pre-commit");
    let (mounts, watch, views) = fixture.began("run-1");
    work(&mounts, &fixture.tree(), "echo evil > tools/hook");
    let tampered = watch.end(|| drop(views.end(true)));
    assert!(tampered.len() == 1 && tampered[0].restored, "{tampered:?}");
    assert_eq!(tampered[0].path, fixture.tree().join(".git/hooks/pre-commit"));
    assert_eq!(fixture.host("cat .git/hooks/pre-commit"), "good\n");
}

#[test]
fn host_objects_stored_in_a_viewed_repository_meanwhile_are_untouched() {
    let fixture = Fixture::new();
    let (_, watch, views) = fixture.began("run-1");
    let store = "for of in .git .git/modules/sub inner/.git; do echo x > $of/objects/x; chmod 4755 $of/objects/x; done";
    fixture.host(store);
    fixture.host("mkdir new; echo x > new/x; chmod 4755 new/x");
    let tampered = watch.end(|| drop(views.end(true)));
    let paths: Vec<&Path> = tampered.iter().map(|it| it.path_in(Path::new(""))).collect();
    assert_eq!(paths, [fixture.tree().join("new/x")], "the control");
    assert_eq!(fixture.host("stat -c %a .git/objects/x inner/.git/objects/x"), "4755\n4755\n");
}

#[test]
fn commits_in_a_linked_work_tree_are_imported_to_the_repository_outside() {
    let fixture = Fixture::new();
    fixture.host("git worktree add -q ../linked -b linked");
    let before = fixture.host("cat .git/config .git/worktrees/linked/gitdir");
    // The host's git is running, and its locks exist for as long as the task looks.
    fixture.host("cd .git/worktrees/linked; touch HEAD.lock index.lock");
    let (tree, common) = (fixture.at("linked"), fixture.tree().join(".git"));
    let resolver = sandbox_files::host_path::Resolver::new([&tree]);
    let outside = super::super::outside::OutsideRepository::of(&tree, "/workspace", &resolver);
    let mounts = vec![
        Mount::read_write(&tree, "/workspace").protected(Protection::default()),
        outside.unwrap().unwrap().mount(),
    ];
    let (mounts, watch, views) = fixture.begin("run-1", mounts);
    assert!(mounts.iter().any(|mount| mount.host_path() == common && mount.copy_dir().is_some()));
    work(
        &mounts,
        &tree,
        "echo x > x; git add x; git commit -qm linked; git config user.name Evil; git worktree prune",
    );
    fixture.host("cd .git/worktrees/linked; rm HEAD.lock index.lock");
    let mut git = GitChanges::default();
    let tampered = watch.end(|| git = views.end(true));
    assert!(tampered.is_empty() && git.failed.is_empty(), "{tampered:?} {git:?}");
    assert_eq!(git.repositories[0].path, common);
    assert_eq!(run(&tree, "git log -1 --format=%s; git status --porcelain"), "linked\n");
    assert_eq!(fixture.host("cat .git/config .git/worktrees/linked/gitdir"), before);
}
