//! The life of a normal user: in ten everyday layouts, a day of git, builds and edits produces no report.

use e2e_tests::bed::Bed;
use e2e_tests::layouts::LAYOUTS;
use sandbox::{ApplyOptions, Protection, WorkspaceCopy};

use super::tree::Tree;

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_work_produces_no_report() {
    let bed = Bed::new().await;
    for layout in LAYOUTS {
        let tree = Tree::new();
        let (done, said) = tree.host(layout.before);
        assert!(done, "{}: {said}", layout.name);
        let mount = tree.plain().protected(Protection::default());
        let ran = tree.run(&bed, mount, &format!("set -e; {}", layout.day)).await;
        assert_eq!(ran.code, 0, "{}: {}", layout.name, ran.stderr);
        assert!(
            ran.result.planted.is_empty(),
            "{}: {:?}",
            layout.name,
            ran.result.planted
        );
        let (done, said) = tree.host("git status --porcelain && git fsck --strict && git log -1 --format=%s");
        assert!(done, "{}: {said}", layout.name);
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_work_in_a_copy_is_applied_whole() {
    let bed = Bed::new().await;
    for layout in LAYOUTS {
        let tree = Tree::new();
        let (done, said) = tree.host(layout.before);
        assert!(done, "{}: {said}", layout.name);
        let ran = tree
            .run(&bed, tree.copied(), &format!("set -e; {}", layout.day))
            .await;
        assert_eq!(ran.code, 0, "{}: {}", layout.name, ran.stderr);
        let copy = WorkspaceCopy::open(tree.copy_dir())
            .expect("a copy")
            .expect("a copy");
        let applied = copy.apply(&ApplyOptions::default()).expect("it is applied");
        assert!(
            applied.held_back.is_empty() && !applied.applied.is_empty(),
            "{}: {:?}",
            layout.name,
            applied.held_back
        );
        let (done, said) = tree.host("git status --porcelain && git fsck --strict && git log -1 --format=%s");
        assert!(done, "{}: {said}", layout.name);
    }
    bed.close().await;
}
