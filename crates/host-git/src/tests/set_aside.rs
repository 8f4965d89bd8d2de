//! Changes that git removes from the files temporarily: for a merge, a rebase, or as a stash. Also
//! trees and objects that only seem large.

use std::path::Path;

use super::fixture::{Fixture, git, script};
use crate::Recorded;

/// A branch that conflicts with `main`, and a change that is not committed.
fn conflicting(host: &Path) {
    script(
        host,
        "git switch -qc other side; echo other > a; git commit -qam other; git switch -q main; echo precious >> b",
    );
}

fn recorded(fixture: &Fixture) -> Recorded {
    fixture.prepare_and(|import| import.recorded().clone()).unwrap()
}

#[test]
fn changes_that_a_merge_or_a_rebase_of_the_task_set_aside_are_kept() {
    for is_upper in [false, true] {
        for operation in [
            "git merge -q --autostash other",
            "git rebase -q --autostash other",
            "git rebase -q --apply --autostash other",
            "git -c pull.rebase=true -c rebase.autoStash=true pull -q . other",
        ] {
            let mut fixture = Fixture::with("sha1", conflicting);
            fixture.is_upper = is_upper;
            fixture.script(&format!("-{operation}"));
            assert_eq!(std::fs::read_to_string(fixture.task().join("b")).unwrap(), "one\n", "{operation}");
            let report = fixture.import();
            let kept = fixture.git("for-each-ref --format=%(refname) refs/sandbox/run-1/stash");
            let patch = fixture.git(&format!("stash show -p {kept}"));
            assert!(patch.contains("+precious"), "{operation}: {patch}");
            assert!(report.hints.iter().any(|hint| hint.contains(&format!("git stash apply {kept}"))));
        }
    }
}

#[test]
fn changes_set_aside_by_the_host_and_restored_by_the_task_are_not_imported_twice() {
    let begin = |host: &Path| {
        conflicting(host);
        script(host, "-git merge -q --autostash other");
    };
    for (end, is_taken) in [
        ("git checkout -q --theirs a; git add a; git commit -qm merged", true),
        ("git merge --abort", true),
        // The control: the merge continues.
        ("git branch new", false),
    ] {
        let fixture = Fixture::with("sha1", begin);
        let set_aside = fixture.common().join("MERGE_AUTOSTASH");
        assert!(set_aside.exists());
        fixture.script(end);
        let report = fixture.import();
        assert_eq!(set_aside.exists(), !is_taken, "{end}");
        let backup = fixture.git("for-each-ref --format=%(refname) refs/sandbox/backup/run-1/stash");
        assert_eq!(!backup.is_empty(), is_taken, "{end}: {backup}");
        assert_eq!(report.refs.iter().any(|change| change.backup.as_deref() == Some(&*backup)), is_taken);
        if is_taken {
            assert!(fixture.git(&format!("stash show -p {backup}")).contains("+precious"));
        }
    }
}

#[test]
fn stash_of_the_task_records_its_files_and_one_of_the_host_none() {
    let fixture = Fixture::with("sha1", |host| script(host, "echo host > b; git stash -q"));
    fixture.script("echo new > new; echo staged > staged; git add staged; echo changed > a; git stash -qu");
    let paths: Vec<String> = recorded(&fixture).paths().map(|path| path.display().to_string()).collect();
    assert_eq!(paths, ["a", "new", "staged"]);
    let many = "echo $i > a; git stash -q;";
    fixture.script(&format!("for i in $(seq 25); do {many} done"));
    assert!(!recorded(&fixture).is_whole());
}

#[test]
fn commit_with_too_many_files_to_compare_is_imported_and_its_record_is_incomplete() {
    let mut fixture = Fixture::new();
    fixture.limits.memory = 512 << 20;
    fixture.script("git branch good");
    // Ten folders in each of ten folders, and so on: few objects, but more paths than fit into
    // memory.
    fixture.script(
        r#"b=$(echo x | git hash-object -w --stdin); t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf "100644 blob $b\tf$i\n"; done | git mktree); for l in 1 2 3 4 5 6 7 8; do t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf "040000 tree $t\td$i\n"; done | git mktree); done; git update-ref HEAD $(git commit-tree -p HEAD -m bomb $t)"#,
    );
    assert!(!recorded(&fixture).is_whole());
    fixture.import();
    assert_eq!(fixture.git("rev-parse main good"), git(&fixture.task(), "rev-parse main good").trim());
}

#[test]
fn object_with_holes_is_not_imported_and_the_rest_is() {
    let fixture = Fixture::new();
    fixture.script("mkdir -p .git/objects/aa; truncate -s 1G .git/objects/aa/$(printf 'b%.0s' $(seq 38)); git commit -q --allow-empty -m new");
    let report = fixture.import();
    assert!(report.left.iter().any(|left| left.why.contains("holes")), "{report:?}");
    assert_eq!(fixture.git("log -1 --format=%s"), "new");
}

#[test]
fn changes_that_a_task_claims_to_have_set_aside_record_their_files() {
    let fixture = Fixture::new();
    fixture.script("echo evil > .envrc; git add .envrc; git stash -q; git rev-parse stash > .git/MERGE_AUTOSTASH; git stash drop -q");
    let paths: Vec<String> = recorded(&fixture).paths().map(|path| path.display().to_string()).collect();
    assert_eq!(paths, [".envrc"]);
}

#[test]
fn changes_set_aside_and_restored_by_the_host_are_not_the_tasks() {
    let begin = |host: &Path| {
        conflicting(host);
        script(host, "-git merge -q --autostash other");
    };
    let fixture = Fixture::with("sha1", begin);
    script(&fixture.host(), "git merge --abort");
    fixture.script("git branch new");
    let report = fixture.import();
    assert!(!report.hints.iter().any(|hint| hint.contains("stash apply")), "{report:?}");
    assert_eq!(fixture.git("for-each-ref refs/sandbox"), "");
}
