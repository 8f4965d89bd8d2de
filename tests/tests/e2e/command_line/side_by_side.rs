//! Runs of one repository next to each other, each in a linked work tree of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::project::{Ended, Project, assert_nothing_left};

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
    git(&app, "git worktree remove ../app.worktrees/two");
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
