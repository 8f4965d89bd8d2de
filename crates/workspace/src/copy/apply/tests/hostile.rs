//! Copies that a task made hard to search, to apply or to discard.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{OFlags, mkdirat, openat};

use super::super::super::super::unprivileged::{USER, unprivileged};
use super::super::super::{notes, room};
use super::*;

/// Gives all of `folder` to an unprivileged user.
fn give(folder: &Path) {
    std::os::unix::fs::lchown(folder, Some(USER), Some(USER)).unwrap();
    if folder.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(folder).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

/// Removes everyone's access to `folder`'s content, except root's.
fn keep(folder: &Path) {
    std::os::unix::fs::chown(folder, Some(0), Some(0)).unwrap();
}

#[test]
fn too_deep_folders_are_refused_and_discarded() {
    let bed = Bed::new();
    let before = bed.snapshot();
    let mut at = std::os::fd::OwnedFd::from(fs::File::open(bed.upper()).unwrap());
    for _ in 0..3000 {
        mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let changes = bed.opened().changes(&Protection::default());
    assert!(matches!(changes, Err(WorkspaceError::Unreadable { .. })), "{changes:?}");
    let applied = bed.apply(&ApplyOptions::default());
    assert!(matches!(applied, Err(WorkspaceError::Unreadable { .. })), "{applied:?}");
    bed.opened().discard().unwrap();
    assert!(WorkspaceCopy::open(bed.copy()).unwrap().is_none());
    assert_eq!(bed.snapshot(), before);

    let long = Bed::new();
    let path = ["n".repeat(200).as_str(); 18].join("/");
    fs::create_dir_all(long.upper().join(path)).unwrap();
    assert_eq!(long.changes().len(), 18, "the control");
    let mut at = std::os::fd::OwnedFd::from(fs::File::open(long.upper()).unwrap());
    for _ in 0..25 {
        let name = "n".repeat(200);
        mkdirat(&at, &name, Mode::from_raw_mode(0o755)).ok();
        at = openat(&at, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let changes = long.opened().changes(&Protection::default());
    assert!(matches!(changes, Err(WorkspaceError::Unreadable { .. })), "{changes:?}");
    long.opened().discard().unwrap();
}

#[test]
fn unprivileged_user_discards_folders_closed_by_the_kernel_and_the_task() {
    unprivileged(|| {
        let bed = Bed::new();
        let close = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        let work = overlay_folders(&bed.copy()).1.join("work");
        fs::create_dir(&work).unwrap();
        close(&work);
        bed.task("x/y", "x");
        close(&bed.upper().join("x"));
        bed.opened().discard().unwrap();
        let left: Vec<_> = fs::read_dir(bed.copy()).unwrap().collect();
        assert_eq!(left.len(), 1, "the lock: {left:?}");

        // When it is applied, the kernel's folder is removed too.
        let bed = Bed::new();
        bed.task("x", "x");
        let work = overlay_folders(&bed.copy()).1.join("work");
        fs::create_dir(&work).unwrap();
        close(&work);
        bed.apply(&ApplyOptions::default()).unwrap();
        assert!(!work.exists() && bed.opened_if_any().is_none());
    });
}

#[test]
fn copy_that_could_not_be_discarded_is_still_known() {
    let bed = Bed::worked();
    bed.task("x/y", "x");
    give(bed.folder.path());
    keep(&bed.upper().join("x"));
    unprivileged(|| {
        assert!(matches!(bed.opened().discard(), Err(WorkspaceError::Io { .. })));
        let changes = bed.opened().changes(&Protection::default());
        assert!(matches!(changes, Err(WorkspaceError::Unreadable { .. })), "{changes:?}");
        assert!(bed.opened().discard().is_err());
        // A task begins again.
        drop(bed.taken());
        assert!(bed.changes().is_empty());
    });
    bed.opened().discard().unwrap();
    assert!(bed.opened_if_any().is_none());
    let left: Vec<_> = fs::read_dir(bed.copy()).unwrap().collect();
    assert_eq!(left.len(), 1, "the lock: {left:?}");
}

#[test]
fn stage_that_cannot_be_removed_stops_nothing() {
    let bed = Bed::worked();
    give(bed.folder.path());
    keep(&bed.tree().join("tree/a"));
    unprivileged(|| {
        // Giving an entry to another user changes it.
        let now = notes::now(&bed.copy()).unwrap();
        notes::note_beginning(&bed.tree(), &bed.copy(), now, BTreeSet::new()).unwrap();
        bed.apply(&ApplyOptions::default()).unwrap();
        assert!(bed.opened_if_any().is_none());
    });
    let tree = bed.snapshot();
    assert_eq!(tree["edited"], "new content");
    assert!(
        tree.keys().any(|path| path.starts_with(".sandbox-apply-") && path.ends_with("a/b")),
        "the control: it could not be removed: {tree:?}"
    );
    drop(bed.taken());
}

#[test]
fn holes_are_preserved_when_applied() {
    const SIZE: u64 = 1 << 40;
    let bed = Bed::new();
    let file = fs::File::create(bed.upper().join("sparse")).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.write_all_at(b"middle", SIZE / 2 + 100).unwrap();
    file.set_len(SIZE).unwrap();
    bed.task("plain", &"p".repeat(300_000));
    fs::File::create(bed.upper().join("empty")).unwrap();
    let needed = || {
        let copy = bed.opened();
        let changes = copy.changes(&Protection::default()).unwrap();
        let comparison = copy.comparison().unwrap();
        room::needed(&comparison.upper, &comparison.host, &changes).unwrap()
    };
    assert_eq!(needed(), 0, "a second name needs no room");
    for name in ["sparse", "plain"] {
        fs::hard_link(bed.upper().join(name), bed.folder.path().join(name)).unwrap();
    }
    let needed = needed();
    assert!((300_000..2_000_000).contains(&needed), "{needed}");

    bed.apply(&ApplyOptions::default()).unwrap();
    let applied = fs::File::open(bed.tree().join("sparse")).unwrap();
    let facts = applied.metadata().unwrap();
    assert_eq!(facts.len(), SIZE);
    assert!(facts.blocks() < 4096, "{} blocks", facts.blocks());
    let mut read = [0_u8; 8];
    applied.read_exact_at(&mut read, SIZE / 2 + 99).unwrap();
    assert_eq!(&read, b"\0middle\0");
    applied.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"first\0\0\0");
    let plain = fs::read_to_string(bed.tree().join("plain")).unwrap();
    assert!(plain.len() == 300_000 && plain.bytes().all(|byte| byte == b'p'));
    assert_eq!(bed.tree().join("empty").metadata().unwrap().len(), 0);
}

#[test]
fn changes_that_do_not_fit_are_refused_before_copying() {
    assert!(room::check(10, 10).is_ok());
    let refused = room::check(11, 10).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);

    let bed = Bed::worked();
    // A file with two names is copied.
    fs::hard_link(bed.upper().join("edited"), bed.upper().join("edited-too")).unwrap();
    let before = bed.snapshot();
    let comparison = bed.opened().comparison().unwrap();
    let mut points = 0;
    let options = ApplyOptions::default();
    let refused = apply_within(&comparison, &bed.copy(), &options, 1, &mut |_| {
        points += 1;
        true
    });
    assert!(matches!(refused, Err(WorkspaceError::Io { .. })), "{refused:?}");
    assert_eq!((bed.snapshot(), points), (before, 0));
    notes::forget(&bed.copy()).unwrap();
}
