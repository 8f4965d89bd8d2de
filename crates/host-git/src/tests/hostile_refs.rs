//! Refs and `HEAD` that a task wrote to have the host lose something, or lose its way.

use std::fs;

use super::bed::{Bed, script};
use super::hostile::write;
use crate::RefOutcome;

#[test]
fn head_at_a_branch_that_cannot_be_made_stays() {
    for name in ["main/x", "main/x/y"] {
        let bed = Bed::new();
        write(&bed.task().join(".git"), "HEAD", format!("ref: refs/heads/{name}\n").as_bytes());
        let report = bed.import();
        assert_eq!(bed.git("symbolic-ref HEAD"), "refs/heads/main");
        assert!(report.left.iter().any(|left| left.path == "HEAD"), "{report:?}");
    }
    // The control: where the branch in its way goes, it comes.
    let bed = Bed::new();
    bed.script("git branch -m main main/x");
    bed.import();
    assert_eq!(bed.git("symbolic-ref HEAD"), "refs/heads/main/x");
}

#[test]
fn branch_of_the_host_stays_below_its_head_when_the_tasks_head_is_bad() {
    for (commands, kept) in [
        ("git update-ref -d refs/heads/main", None),
        // Packed, and with something else in its place.
        ("git pack-refs --all; git update-ref -d refs/heads/main", None),
        ("git branch -m main main/x", Some("refs/sandbox/run-1/heads/main/x")),
    ] {
        for is_upper in [false, true] {
            let mut bed = Bed::new();
            bed.is_upper = is_upper;
            let main = bed.git("rev-parse main");
            bed.script(commands);
            write(&bed.task().join(".git"), "HEAD", b"ref: refs/heads/../x\n");
            let report = bed.import();
            assert_eq!(bed.git("rev-parse HEAD refs/heads/main"), format!("{main}\n{main}"), "{commands}");
            let stayed = report.refs.iter().find(|change| change.name == "refs/heads/main").unwrap();
            assert!(matches!(stayed.outcome, RefOutcome::Stayed { .. }), "{report:?}");
            let ours = bed.git("for-each-ref --format=%(refname) refs/sandbox");
            assert_eq!(ours, kept.unwrap_or_default(), "{commands}: {report:?}");
            let says = bed.host_says();
            bed.import();
            assert_eq!(bed.host_says(), says, "the same once more");
        }
    }
}

#[test]
fn branch_that_the_host_switched_to_meanwhile_stays_below_its_head() {
    let bed = Bed::new();
    bed.script("git branch -D side");
    script(&bed.host(), "git switch -q side");
    bed.import();
    assert_eq!(bed.git("rev-parse HEAD"), bed.git("rev-parse v1"));
    assert_eq!(bed.git("symbolic-ref HEAD"), "refs/heads/side");
}

#[test]
fn branches_and_tags_stay_when_files_take_the_place_of_their_folders() {
    for is_packed in [false, true] {
        for is_upper in [false, true] {
            let mut bed = Bed::with("sha1", |host| {
                script(host, if is_packed { "git pack-refs --all" } else { "true" });
            });
            bed.is_upper = is_upper;
            let before = bed.host_says();
            let id = bed.git("rev-parse side");
            let git = bed.task().join(".git");
            bed.script("rm -rf .git/refs/heads .git/refs/tags .git/packed-refs");
            for name in ["heads", "tags"] {
                fs::write(git.join("refs").join(name), &id).unwrap();
            }
            let report = bed.import();
            assert_eq!(bed.host_says(), before, "{is_packed} {is_upper}: {report:?}");
            assert!(report.left.iter().any(|left| left.path == "refs/heads"), "{report:?}");
        }
    }
}
