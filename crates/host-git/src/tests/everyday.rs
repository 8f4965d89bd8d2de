//! Everyday git commands of people and agents, and their import.

use std::fs;

use super::fixture::{Fixture, script};
use crate::{RefOutcome, Report};

/// Commands after which the host's repository equals the task's.
const ARRIVES: [(&str, &str); 22] = [
    ("nothing", ""),
    ("commit", "echo x > c; git add c; git commit -qm third"),
    ("amend", "git commit -q --amend -m other"),
    ("empty commit", "git commit -q --allow-empty -m x"),
    ("branch", "git branch new; git switch -qc more; git commit -q --allow-empty -m x"),
    ("branch below a branch", "git branch -m side side/inner"),
    (
        "branch above a branch",
        "git switch -qc deep/er; git commit -q --allow-empty -m x; git switch -q main; git branch -m deep/er deep",
    ),
    ("rename the branch", "git branch -m main trunk"),
    (
        "delete a branch",
        "git switch -q side; git commit -q --allow-empty -m lost; git switch -q main; git branch -D side",
    ),
    ("tag", "git tag v2; git tag -a -m text v3; git tag -d v1"),
    ("move a tag", "git tag -f v1"),
    ("detached HEAD", "git switch -q --detach v1; git commit -q --allow-empty -m x"),
    ("stash", "echo s > a; git stash -q; echo t > b; git stash push -q -m two"),
    ("notes", "git notes add -m note"),
    (
        "merge",
        "git switch -q side; echo y > d; git add d; git commit -qm d; git switch -q main; git merge -q side -m merged",
    ),
    (
        "conflicted merge",
        "git switch -q side; echo y > a; git commit -qam y; git switch -q main; git merge side || true",
    ),
    (
        "conflicted cherry-pick",
        "git switch -q side; echo y > a; git commit -qam y; git switch -q main; git cherry-pick side || true",
    ),
    (
        "staged, not committed",
        "echo x > c; git add c; git rm -q b; chmod +x a; git add a; ln -s a l; git add l",
    ),
    ("gc", "git commit -q --allow-empty -m x; git gc -q --prune=now"),
    ("repack", "git commit -q --allow-empty -m x; git repack -qad"),
    ("pack-refs", "git branch new; git pack-refs --all --prune; git branch -D side"),
    ("reset", "git reset -q --hard HEAD~1"),
];

fn nothing_is_left(report: &Report, name: &str) {
    let stayed = |outcome: &RefOutcome| *outcome != RefOutcome::Came;
    assert!(!report.refs.iter().any(|change| stayed(&change.outcome)), "{name}: {report:?}");
    assert!(report.left.is_empty(), "{name}: {report:?}");
}

/// The state without our own refs.
fn without_ours(state: &str) -> String {
    state.split_inclusive('\n').filter(|line| !line.starts_with("refs/sandbox/")).collect()
}

fn check(format: &str, is_upper: bool, cases: &[(&str, &str)]) {
    for (name, commands) in cases {
        let mut fixture = Fixture::with(format, |_| {});
        fixture.is_upper = is_upper;
        fixture.script(commands);
        let report = fixture.import();
        assert_eq!(without_ours(&fixture.host_state()), fixture.task_state(), "{name} {format} {is_upper}");
        nothing_is_left(&report, name);
        assert_eq!(report.is_empty(), *name == "nothing", "{name}: {report:?}");
    }
}

#[test]
fn everyday_work_in_a_copy_is_imported_completely() {
    check("sha1", false, &ARRIVES);
}

#[test]
fn everyday_work_in_an_overlay_is_imported_completely() {
    check("sha1", true, &ARRIVES);
}

#[test]
fn everyday_work_with_longer_ids_is_imported_completely() {
    check("sha256", true, &ARRIVES[..12]);
    check("sha256", false, &ARRIVES[12..]);
}

#[test]
fn import_made_twice_changes_nothing_more() {
    for (name, commands) in ARRIVES.iter().step_by(3) {
        let fixture = Fixture::new();
        fixture.script(commands);
        fixture.import();
        let state = fixture.host_state();
        fixture.import();
        assert_eq!(fixture.host_state(), state, "{name}");
    }
}

#[test]
fn submodule_repository_is_imported_separately() {
    let mut fixture = Fixture::new();
    fixture.script("git config core.worktree ../../../sub");
    script(&fixture.host(), "git config core.worktree ../../../sub");
    fixture.start = super::fixture::snapshot(&fixture.common());
    fixture.script("echo x > c; export GIT_WORK_TREE=$PWD; git add c; git commit -qm c");
    let report = fixture.import_with(&mut |_| true).unwrap();
    assert!(report.index && report.refs.len() == 1, "{report:?}");
    script(&fixture.host(), "sed -i /worktree/d .git/config");
    script(&fixture.task(), "sed -i /worktree/d .git/config");
    assert_eq!(fixture.host_state(), fixture.task_state());
}

#[test]
fn lost_value_has_a_backup() {
    let fixture = Fixture::with("sha1", |host| {
        script(
            host,
            "git switch -qc work; git commit -q --allow-empty -m work; echo s > a; git stash -q; git switch -q main",
        );
    });
    let (work, stash) = (fixture.git("rev-parse work"), fixture.git("rev-parse stash"));
    fixture.script("git branch -D work; git stash drop -q; git branch -D side");
    let report = fixture.import();
    let backups = fixture.git("for-each-ref --format=%(refname)=%(objectname) refs/sandbox");
    let expected = format!(
        "refs/sandbox/backup/run-1/heads/work={work}\nrefs/sandbox/backup/run-1/stash/{}={stash}",
        &stash[..12]
    );
    assert_eq!(backups, expected, "a value that other refs lead to needs no backup");
    let named: Vec<&str> = report.refs.iter().filter_map(|change| change.backup.as_deref()).collect();
    assert_eq!(named.len(), 2, "{report:?}");
}

#[test]
fn rebase_in_progress_is_not_imported_and_a_hint_is_given() {
    let fixture = Fixture::new();
    fixture.script("git switch -q side; echo y > a; git commit -qam y\n-git rebase main");
    let branch = fixture.git("rev-parse side");
    let report = fixture.import();
    assert_ne!(fixture.git("rev-parse HEAD"), branch);
    assert!(report.hints.iter().any(|hint| hint.contains("no `git rebase --abort` is needed")), "{report:?}");
    assert!(report.left.iter().any(|left| left.path == "rebase-merge"), "{report:?}");
    assert!(!fixture.common().join("rebase-merge").exists());
    script(&fixture.host(), "git reset -q --hard; git switch -q side");
}

#[test]
fn push_target_of_a_branch_is_imported_and_other_settings_are_listed() {
    let fixture = Fixture::new();
    fixture.script("git switch -qc new; git push -qu origin new; git config core.hooksPath h; git remote add evil ext::sh; git config branch.main.remote evil");
    let report = fixture.import();
    assert_eq!(fixture.git("config branch.new.remote"), "origin");
    assert_eq!(fixture.git("config branch.new.merge"), "refs/heads/new");
    assert_eq!(fixture.git("rev-parse origin/new"), fixture.git("rev-parse main"));
    let stayed: Vec<&str> = report
        .settings
        .iter()
        .filter(|change| change.stays.is_some())
        .map(|change| change.key.as_str())
        .collect();
    assert_eq!(stayed, ["branch.main.remote", "core.hookspath", "remote.evil.fetch", "remote.evil.url"]);
}

#[test]
fn work_trees_submodules_and_sparse_checkouts_are_not_imported_and_the_rest_is() {
    for (commands, left) in [
        ("git worktree add -q ../linked; git -C ../linked commit -q --allow-empty -m x", "worktrees"),
        (
            "git -c protocol.file.allow=always submodule --quiet add ../remote.git sub; git commit -qm sub",
            "modules",
        ),
        (
            "echo x > c; git add c; git commit -qm c; git sparse-checkout set --no-cone /a",
            "info/sparse-checkout",
        ),
        (
            "git maintenance start --scheduler=crontab || true; echo x > .git/hooks/pre-commit; git commit -q --no-verify --allow-empty -m x",
            "hooks/pre-commit",
        ),
    ] {
        let fixture = Fixture::with("sha1", |host| {
            script(
                &host.join("../remote.git"),
                "git fetch -q ../host main:main; git symbolic-ref HEAD refs/heads/main",
            );
        });
        fixture.script(commands);
        let report = fixture.import();
        assert!(report.left.iter().any(|it| it.path == left), "{commands}: {report:?}");
        assert_eq!(fixture.host_state(), fixture.task_state(), "{commands}");
        let _ = fs::remove_dir_all(fixture.host().join("../linked"));
    }
}

#[test]
fn new_folders_next_to_submodule_repositories_are_listed() {
    let folder = |name: &str| format!("git init -q --bare .git/modules/{name}");
    for is_upper in [false, true] {
        let mut fixture = Fixture::with("sha1", |host| {
            script(host, &[folder("lib/foo"), folder("plain"), folder("plain/modules/inner")].join("; "));
        });
        fixture.is_upper = is_upper;
        fixture
            .script(&[folder("lib/new"), folder("more"), folder("plain/modules/inner/modules/x")].join("; "));
        fixture.script("echo x > .git/modules/lib/evil; echo x > .git/modules/lib/foo/own; echo x > .git/modules/plain/own");
        let report = fixture.import();
        let left: Vec<&str> = report.left.iter().map(|left| left.path.as_str()).collect();
        assert_eq!(left, ["modules/lib/evil", "modules/lib/new", "modules/more"], "{report:?}");
    }
}

#[test]
fn pack_of_the_whole_history_imports_only_new_objects() {
    let fixture = Fixture::new();
    fixture.script("git commit -q --allow-empty -m x; git gc -q --prune=now");
    let before = fixture.git("count-objects -v");
    fixture.import();
    let count = |text: &str, key: &str| -> u64 {
        text.lines().find_map(|line| line.strip_prefix(key)).unwrap().parse().unwrap()
    };
    let after = fixture.git("count-objects -v");
    assert_eq!(count(&before, "in-pack: ") + 1, count(&after, "in-pack: "), "{after}");
    fixture.import();
    assert_eq!(fixture.git("count-objects -v"), after);
}
