//! Versions that git recorded and the files do not have, and imports that cannot be finished.

use super::git::Git;
use super::*;

const PROTECTED: &str =
    "mkdir .githooks; printf '#!/bin/sh\\n' > .githooks/pre-commit; chmod +x .githooks/pre-commit
    git add .githooks; git commit -qm hooks; git config core.hooksPath .githooks";
/// A commit of another version of a hook, and of a new one; `$1` restores the files.
const EVIL: &str = "echo touch evil >> .githooks/pre-commit; echo evil > .envrc; git add -A; git commit -qm evil --no-verify";

#[test]
fn protected_version_that_only_git_has_withholds_everything() {
    for (hidden, expected) in [
        // In the index and in the commit.
        ("git show HEAD~1:.githooks/pre-commit > .githooks/pre-commit; rm .envrc", "waits"),
        // Only in the commit: the host's `git stash` would write it.
        ("git reset -q HEAD~1 -- .; git restore .githooks; rm .envrc", "waits"),
        // Only in the index: `git checkout .` would write it.
        (
            "git reset -q --soft HEAD~1; git show HEAD:.githooks/pre-commit > .githooks/pre-commit; rm .envrc",
            "waits",
        ),
        // In a stash: `git stash pop` would write it.
        ("git reset -q HEAD~1; git add -A; git stash -q", "waits"),
        // The control: the same commit on another branch is data, and the person sees that before a
        // switch.
        ("git branch -q evil; git reset -q --hard HEAD~1", "comes"),
    ] {
        let git = Git::with(PROTECTED);
        let query = "git for-each-ref refs/heads/main refs/stash; git ls-files -s";
        let before = git.host(query);
        git.work(&format!("{EVIL}; {hidden}"));
        let shown = git.fixture.opened().git_changes(&Protection::default()).unwrap();
        let applied = git.apply();
        let waits = vec![!applied.waiting.is_empty()];
        assert_eq!(waits, [expected == "waits"], "{hidden}: {applied:?}");
        assert_eq!(applied.git.repositories.is_empty(), waits[0], "{hidden}: {applied:?}");
        assert_eq!(shown.repositories.iter().map(|it| it.waits).collect::<Vec<_>>(), waits, "{hidden}");
        assert_eq!(git.host(query), before, "{hidden}");
        if expected == "waits" {
            let hints = applied.waiting[0].report.hints.join("\n");
            assert!(hints.contains("`.envrc`, `.githooks/pre-commit`"), "{hints}");
            let all = ApplyOptions { include_withheld: true, ..ApplyOptions::default() };
            git.fixture.apply(&all).unwrap();
            assert_ne!(git.host(query), before, "{hidden}");
        }
    }
}

#[test]
fn recorded_entries_that_are_not_the_files_in_the_tree_wait() {
    let with = "printf 'other' > .envrc; git add .envrc; git commit -qm envrc";
    for script in [
        // The same content as a link, to a file that is not protected; and one that can be
        // executed.
        "git update-index --cacheinfo 120000,$(git rev-parse HEAD:.envrc),.envrc",
        "git update-index --chmod=+x .envrc",
        // A repository as a folder of files: each file alone is harmless.
        "git init -q --bare foo; touch foo/objects/.k foo/refs/.k; git add -f foo; git commit -qm foo; rm -r foo",
    ] {
        let git = Git::with(with);
        git.work(script);
        let applied = git.apply();
        assert!(applied.git.repositories.is_empty(), "{script}: {applied:?}");
        assert_eq!(applied.waiting.len(), 1, "{script}: {applied:?}");
    }
}

#[test]
fn protected_file_recorded_in_its_present_version_does_not_wait() {
    // Not committed yet, as in every new project.
    let git = Git::with(
        "mkdir .sandbox; echo 'image: x' > .sandbox/sandbox.yaml; echo x > .envrc; ln -s .agents .claude; touch .envrc.local; chmod +x .envrc.local",
    );
    git.work("git add -A; git commit -qm all");
    let applied = git.apply();
    assert!(applied.waiting.is_empty(), "{applied:?}");
    assert_eq!(git.log("."), "all");
    assert_eq!(git.host("git status --porcelain"), "");
}

#[test]
fn unfinishable_import_can_be_discarded() {
    // The host's git cannot create the branch: a file that is not a ref blocks its name. The copy
    // of the repository lacks that file, so git in the task could.
    let git = Git::with(
        "mkdir -p .git/refs/heads/feature; head -c 6148 /dev/zero > .git/refs/heads/feature/.DS_Store",
    );
    git.work("git branch feature; echo new > new");
    let failed = git.fixture.apply(&ApplyOptions::default());
    assert!(matches!(failed, Err(WorkspaceError::Repository { .. })), "{failed:?}");
    assert!(!git.fixture.tree().join("new").exists(), "all or nothing");
    git.fixture.opened().discard().unwrap();

    // Two repositories, of which the second is never writable.
    let git = Git::new();
    git.work("echo new > new; git commit -q --allow-empty -m main; git -C inner commit -q --allow-empty -m inner; git branch topic");
    fs::write(git.fixture.tree().join(".git/refs/heads/topic.lock"), "").unwrap();
    let failed = git.fixture.apply(&ApplyOptions::default());
    assert!(matches!(failed, Err(WorkspaceError::Unfinished { .. })), "{failed:?}");
    assert!(WorkspaceCopy::open(git.fixture.copy()).is_err(), "the control: it cannot be opened");
    WorkspaceCopy::discard_in(git.fixture.copy()).unwrap();
    assert!(WorkspaceCopy::open(git.fixture.copy()).unwrap().is_none());
    assert_eq!(git.log("inner"), "inner", "the finished import remains");
    assert!(git.fixture.tree().join("new").exists());
    assert!(!WorkspaceCopy::discard_in(git.fixture.folder.path().join("none")).unwrap());
}

#[test]
fn refs_with_non_utf_8_names_lose_only_themselves() {
    let odd = "cp .git/refs/heads/main \"$(printf '.git/refs/heads/\\377')\"";
    let git = Git::with(odd);
    git.work("git commit -q --allow-empty -m task; git -C inner commit -q --allow-empty -m in-inner");
    git.apply();
    assert_eq!([git.log("."), git.log("inner")], ["task", "in-inner"]);
}

#[test]
fn repository_with_large_holes_is_not_copied_and_others_are() {
    let git = Git::with("");
    git.fixture.opened().discard().unwrap();
    git.host("truncate -s 200M inner/.git/packed-refs");
    drop(git.fixture.taken());
    let room = shell_size(&git.fixture.copy());
    assert!(room < 20 << 20, "{room}");
    git.work("git commit -q --allow-empty -m task");
    git.apply();
    assert_eq!(git.log("."), "task");
}

/// Bytes on the disk of all files in `folder`.
fn shell_size(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut size = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let facts = entry.path().symlink_metadata().unwrap();
        size += if facts.is_dir() { shell_size(&entry.path()) } else { facts.blocks() * 512 };
    }
    size
}
