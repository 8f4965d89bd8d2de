//! Work trees and settings that git in a task writes and that would change the behaviour of the
//! host's git: withheld until the user applies them.

use super::*;

/// Programs that the host's git runs by paths relative to a work tree.
const HOST: &str = "mkdir .githooks tools; printf '#!/bin/sh\\nexit 0\\n' > .githooks/pre-commit; printf '#!/bin/sh\\nexit 1\\n' > tools/watch
    printf '#!/bin/sh\\ncat\\n' > tools/clean; chmod +x .githooks/* tools/*; echo '*.txt filter=f' > .gitattributes; git add .; git commit -qm programs
    git config core.hooksPath .githooks; git config core.fsmonitor tools/watch; git config filter.f.clean tools/clean; mkdir known";

/// Work trees that a task adds, with git and by hand, in new and existing folders, with the task's
/// own programs in them.
const WORK_TREES: &str = "evil() { (cd $1; mkdir -p .githooks tools; cp /workspace/.gitattributes .; echo x > x.txt
        for it in .githooks/pre-commit tools/watch tools/clean; do printf '#!/bin/sh\\ntouch MARKS/%s; cat\\n' $(basename $it) > $it; chmod +x $it; done); }
    git worktree add -q inner -b inner; git worktree add -q deep/er -b deep
    mkdir new; for it in known new; do echo gitdir: $(realpath --relative-to=$it $(git rev-parse --git-dir)) > $it/.git; done
    echo gitdir: ROOT/$(git rev-parse --git-dir) > absolute; mkdir abs; mv absolute abs/.git
    for it in inner deep/er known new abs; do evil $it; done";

const FOLDERS: [&str; 5] = ["inner", "deep/er", "known", "new", "abs"];

/// Commands of a user in a folder; they may fail.
const USE: &str = "git status -s; git add -A .; git commit -qm host --allow-empty; git worktree repair";

/// The programs of the task that the host's git ran, in order.
fn ran(fixture: &Fixture, folders: &[&str]) -> Vec<String> {
    let marks = fixture.root().join("marks");
    fs::create_dir_all(&marks).expect("a folder");
    for folder in folders {
        let mut command = Command::new("bash");
        command
            .args(["-c", USE])
            .current_dir(fixture.work_tree.join(folder))
            .env("HOME", fixture.home.path());
        command.output().expect("a shell");
    }
    let mut names: Vec<String> = fs::read_dir(marks)
        .expect("a folder")
        .map(|mark| mark.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn work_tree_added_by_a_task_runs_no_programs_on_the_host() {
    for kind in [Kind::Clone, Kind::Linked] {
        for mode in ["direct", "copy", "auto"] {
            let fixture = Fixture::new(kind);
            fixture.host(&fixture.work_tree, HOST);
            let marks = fixture.root().join("marks").display().to_string();
            let root =
                if kind == Kind::Clone { fixture.work_tree.display().to_string() } else { String::new() };
            let script = WORK_TREES.replace("MARKS", &marks).replace("ROOT", &root);
            // `-v` lists everything that was moved away.
            let mut ended =
                fixture.sandbox(&["-v", "run", "--workspace", mode, "--", "bash", "-ec", &script]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            if mode == "copy" {
                ended = fixture.sandbox(&["apply"]);
                assert_eq!(ended.code, Some(0), "{ended:?}");
            }
            assert_eq!(ran(&fixture, &FOLDERS), [""; 0], "{kind:?} {mode}");
            for folder in FOLDERS {
                let report = if mode == "direct" {
                    format!("the task wrote `{folder}/.git`")
                } else {
                    format!("{folder}/.git: ")
                };
                assert!(ended.stderr.contains(&report), "{kind:?} {mode}: {report}: {ended:?}");
                assert!(
                    fixture.work_tree.join(folder).join("x.txt").exists(),
                    "the control: the files are there"
                );
                assert!(!fixture.work_tree.join(folder).join(".git").exists(), "{kind:?} {mode} {folder}");
            }
            let trees = fixture.host(&fixture.work_tree, "git worktree list --porcelain");
            assert!(!FOLDERS.iter().any(|folder| trees.contains(&format!("/{folder}\n"))), "{trees}");
            // The branch is there, and the host can create a work tree of it.
            fixture.host(
                &fixture.work_tree,
                "git worktree prune; git worktree add -q ../own inner; git -C ../own status",
            );

            // Even --include-protected makes none of them a work tree. The control: a manual
            // pointer.
            fixture.sandbox(&["apply", "--include-protected"]);
            assert_eq!(ran(&fixture, &FOLDERS), [""; 0], "{kind:?} {mode}");
            fixture
                .host(&fixture.work_tree, "echo gitdir: $(realpath $(git rev-parse --git-dir)) > inner/.git");
            let expected = ["clean", "pre-commit", "watch"];
            assert_eq!(ran(&fixture, &["inner", "known", "abs"]), expected, "the control: {kind:?} {mode}");
        }
    }
}

/// Git in a task cannot change a linked work tree of the host inside the tree.
#[tokio::test(flavor = "multi_thread")]
async fn host_work_trees_in_the_tree_keep_their_pointers() {
    let attempts = [
        ("true", true),
        ("echo gitdir: ../.git > inner/.git", true),
        ("rm inner/.git; mkdir inner/.git; cp -r .git/HEAD .git/objects .git/refs inner/.git", true),
        ("echo ROOT/src/.git > .git/worktrees/inner/gitdir", true),
        ("git worktree repair inner; git -C inner status", true),
        // Without its folder there is no pointer to restore.
        ("mv inner moved; git worktree repair moved || true", false),
    ];
    for (attempt, is_there) in attempts {
        for mode in ["direct", "auto"] {
            let fixture = Fixture::new(Kind::Clone);
            fixture.host(
                &fixture.work_tree,
                "git worktree add -q inner -b inner; echo gitdir: ../.git/worktrees/inner > inner/.git",
            );
            let state =
                "cat inner/.git .git/worktrees/inner/gitdir; git -C inner rev-parse --abbrev-ref HEAD";
            let before = fixture.host(&fixture.work_tree, state);
            let ended = fixture.run(mode, &attempt.replace("ROOT", &fixture.work_tree.display().to_string()));
            assert_eq!(ended.code, Some(0), "{attempt} {mode}: {ended:?}");
            if is_there || mode == "auto" {
                assert_eq!(fixture.host(&fixture.work_tree, state), before, "{attempt} {mode}: {ended:?}");
            } else {
                assert!(!fixture.work_tree.join("moved/.git").exists(), "{ended:?}");
            }
            assert_eq!(
                ["withheld", "not imported:", "the task wrote"]
                    .iter()
                    .any(|report| ended.stderr.contains(report)),
                attempt != "true",
                "{attempt} {mode}: {ended:?}"
            );
            if mode == "auto" && attempt.starts_with("echo gitdir") {
                fixture.sandbox(&["apply", "--include-protected"]);
                assert_eq!(fixture.host(&fixture.work_tree, state), before, "{attempt}");
                fixture.host(&fixture.work_tree, attempt);
                assert_ne!(fixture.host(&fixture.work_tree, state), before, "the control");
            }
        }
    }
}

/// Settings that an agent writes with `git config` and `push -u`: they change where the host
/// pushes.
const SETTINGS: &str = "echo n > n; git add n; git commit -qm n; git push -q -u origin HEAD:pushed
    git config remote.origin.pushurl EVIL; git config remote.origin.url EVIL; git config remote.origin.mirror true
    git config --add remote.origin.fetch +refs/heads/*:refs/heads/*; git config remote.origin.push '+refs/*:refs/*'
    git config user.name \"$(printf 'A\\033[31m\\nB')\"; git config core.bare false";

#[tokio::test(flavor = "multi_thread")]
async fn git_settings_of_a_task_are_withheld_and_listed_one_by_one() {
    for kind in [Kind::Clone, Kind::Linked] {
        let fixture = Fixture::new(kind);
        let evil = fixture.root().join("evil.git").display().to_string();
        let origin = fixture.root().join("origin").display().to_string();
        fixture.host(&fixture.root(), "git init -q --bare evil.git");
        let list = "git config --local --list | grep -v ^branch";
        let before = fixture.host(&fixture.work_tree, list);
        let branch = fixture.host(&fixture.work_tree, "git branch --show-current");
        let ended = fixture.run("auto", &format!("set -e; {}", SETTINGS.replace("EVIL", &evil)));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(fixture.host(&fixture.work_tree, list), before);
        assert_eq!(fixture.host(&fixture.work_tree, "git log -1 --format=%s; git status --porcelain"), "n\n");
        let expected = [
            format!(".git: remote.origin.url: \"{origin}\" -> \"{evil}\""),
            format!(".git: remote.origin.pushurl: unset -> \"{evil}\""),
            ".git: remote.origin.mirror: unset -> \"true\"".to_owned(),
            ".git: remote.origin.fetch: \"+refs/heads/*:refs/remotes/origin/*\" -> \"+refs/heads/*:refs/remotes/origin/*\", \"+refs/heads/*:refs/heads/*\"".to_owned(),
            ".git: remote.origin.push: unset -> \"+refs/*:refs/*\"".to_owned(),
            ".git: user.name: unset -> \"A\\u{1b}[31m\\nB\"".to_owned(),
            format!(".git: branch.{}.merge: ", branch.trim()),
        ];
        let diff = fixture.sandbox(&["diff"]);
        for line in expected {
            assert!(ended.stderr.contains(&line), "{kind:?}: {line}: {ended:?}");
            assert!(diff.stdout.contains(&line), "{kind:?}: {line}: {diff:?}");
        }
        assert!(!diff.stdout.contains("core.bare"), "an unchanged setting is not listed: {diff:?}");
        let changes = fixture.sandbox(&["diff", "--output", "json"]).json();
        let settings = &changes["git"]["settings"];
        let url = settings.as_array().and_then(|all| all.iter().find(|it| it["key"] == "remote.origin.url"));
        assert_eq!(url.map(|it| &it["new"][0]), Some(&serde_json::Value::from(evil.as_str())), "{changes}");

        let push = "git push -q; git push -q origin HEAD:later; git fetch -q";
        let pushed = |fixture: &Fixture| {
            let mut command = Command::new("bash");
            command.args(["-c", push]).current_dir(&fixture.work_tree).env("HOME", fixture.home.path());
            command.output().expect("a shell");
            fixture.host(&fixture.root(), "git -C evil.git for-each-ref")
        };
        assert_eq!(pushed(&fixture), "");
        assert!(fixture.host(&fixture.root(), "git -C origin for-each-ref").contains("refs/heads/later"));
        // Settings are applied one by one, not together with withheld files.
        let all = fixture.sandbox(&["apply", "--include-protected", "--force"]);
        assert_eq!(all.code, Some(0), "{all:?}");
        assert_eq!(pushed(&fixture), "");
        let taken = ["remote.origin.pushurl", "remote.origin.mirror"];
        let taken: Vec<&str> = taken.iter().flat_map(|key| ["--git-config", *key]).collect();
        let taken = fixture.sandbox(&[&["apply"], &taken[..]].concat());
        assert_eq!(taken.code, Some(0), "{taken:?}");
        assert!(!fixture.sandbox(&["diff"]).stdout.contains("mirror"));
        assert_ne!(pushed(&fixture), "", "the control: {kind:?}");
    }
}

/// When the user applies it, it is recreated from its commits alone. The files are not withheld.
#[tokio::test(flavor = "multi_thread")]
async fn repository_created_by_a_task_is_withheld_as_a_whole() {
    let project = Project::new();
    let script = "git init -q -b main . && echo a > a && git add a && git -c user.name=a -c user.email=a@a.test commit -qm one";
    let ended = project.output(&["run", "--workspace", "auto", "--", "bash", "-ec", script]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("A  .git/ (withheld: repository)"), "{ended:?}");
    assert!(project.path().join("a").exists() && !project.path().join(".git").exists());
    let log = || {
        Command::new("git").args(["log", "--format=%s"]).current_dir(project.path()).output().expect("git")
    };
    assert!(!log().status.success());
    assert_eq!(project.output(&["apply", "--include-protected"]).code, Some(0));
    assert_eq!(log().stdout, b"one\n", "the control");
}
