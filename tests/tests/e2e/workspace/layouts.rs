//! A normal user's day: in ten everyday layouts, git, builds and edits produce no reports except
//! for work trees added by git.

use std::path::Path;

use e2e_tests::fixture::Fixture;
use e2e_tests::layouts::LAYOUTS;
use sandbox::workspace::{ApplyOptions, Change, Protection, WorkspaceCopy};

use super::tree::Tree;

#[tokio::test(flavor = "multi_thread")]
async fn day_of_work_produces_no_report() {
    let fixture = Fixture::new().await;
    for layout in LAYOUTS {
        let tree = Tree::new();
        let (done, said) = tree.host(layout.before);
        assert!(done, "{}: {said}", layout.name);
        let mount = tree.plain().protected(Protection::default());
        let ran = tree.run(&fixture, mount, &format!("set -e; {}", layout.day)).await;
        assert_eq!(ran.code, 0, "{}: {}", layout.name, ran.stderr);
        let is_pointer =
            |path: &Path| path.ends_with(".git") || path.ends_with("gitdir") || path.ends_with("commondir");
        assert!(
            ran.result.tampered.iter().all(|thing| is_pointer(&thing.path)),
            "{}: {:?}",
            layout.name,
            ran.result.tampered
        );
        let adds = layout.day.contains("worktree add");
        assert_eq!(ran.result.tampered.is_empty(), !adds, "{}: {:?}", layout.name, ran.result.tampered);
        let (done, said) = tree.host("git status --porcelain && git fsck --strict && git log -1 --format=%s");
        assert!(done, "{}: {said}", layout.name);
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn day_of_work_in_a_copy_is_applied_whole() {
    let fixture = Fixture::new().await;
    for layout in LAYOUTS {
        let tree = Tree::new();
        let (done, said) = tree.host(layout.before);
        assert!(done, "{}: {said}", layout.name);
        let ran = tree.run(&fixture, tree.copied(), &format!("set -e; {}", layout.day)).await;
        assert_eq!(ran.code, 0, "{}: {}", layout.name, ran.stderr);
        let copy = WorkspaceCopy::open(tree.copy_dir()).expect("a copy").expect("a copy");
        let applied = copy.apply(&ApplyOptions::default()).expect("it is applied");
        let held: Vec<String> = (applied.withheld.iter())
            .map(|change| format!("{:?} {}", change.withheld, change.path.display()))
            .collect();
        // A repository created by the task is withheld for review.
        let is_of_git = |change: &Change| change.path.iter().any(|part| part == ".git" || part == "bare.git");
        assert!(applied.withheld.iter().all(is_of_git), "{}: {held:#?}", layout.name);
        let waits = ["git clone", "git init"].iter().any(|made| layout.day.contains(made));
        assert_eq!(held.is_empty(), !waits, "{}: {held:#?}", layout.name);
        assert!(!applied.applied.is_empty(), "{}", layout.name);
        let (done, said) = tree.host("git status --porcelain && git fsck --strict && git log -1 --format=%s");
        assert!(done, "{}: {said}", layout.name);
    }
    fixture.close().await;
}

/// Overlay file systems cannot rename a folder of the lower layer; programs fall back to moving the
/// files one by one.
#[tokio::test(flavor = "multi_thread")]
async fn folder_in_a_copy_can_be_moved_file_by_file() {
    let fixture = Fixture::new().await;
    let tree = Tree::new();
    let script = "git mv src moved 2>&1; set -e; mv src moved; git add -A; git commit -qm moved; git show --format= --name-status -M";
    let ran = tree.run(&fixture, tree.copied(), script).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("Invalid cross-device link") && ran.stdout.contains("R100\tsrc/a\tmoved/a"),
        "{}",
        ran.stdout
    );
    let direct = tree.run(&fixture, tree.plain(), "git mv src moved").await;
    assert_eq!(direct.code, 0, "the tree itself moves: {}", direct.stderr);
    fixture.close().await;
}
