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
    let fixture = Fixture::new();
    let before = fixture.snapshot();
    let mut at = std::os::fd::OwnedFd::from(fs::File::open(fixture.upper()).unwrap());
    for _ in 0..3000 {
        mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let changes = fixture.opened().changes(&Protection::default());
    assert!(matches!(changes, Err(WorkspaceError::Unreadable { .. })), "{changes:?}");
    let applied = fixture.apply(&ApplyOptions::default());
    assert!(matches!(applied, Err(WorkspaceError::Unreadable { .. })), "{applied:?}");
    fixture.opened().discard().unwrap();
    assert!(WorkspaceCopy::open(fixture.copy()).unwrap().is_none());
    assert_eq!(fixture.snapshot(), before);

    let long = Fixture::new();
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
        let fixture = Fixture::new();
        let close = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        let work = overlay_folders(&fixture.copy()).1.join("work");
        fs::create_dir(&work).unwrap();
        close(&work);
        fixture.task("x/y", "x");
        close(&fixture.upper().join("x"));
        fixture.opened().discard().unwrap();
        let left: Vec<_> = fs::read_dir(fixture.copy()).unwrap().collect();
        assert_eq!(left.len(), 1, "the lock: {left:?}");

        // When it is applied, the kernel's folder is removed too.
        let fixture = Fixture::new();
        fixture.task("x", "x");
        let work = overlay_folders(&fixture.copy()).1.join("work");
        fs::create_dir(&work).unwrap();
        close(&work);
        fixture.apply(&ApplyOptions::default()).unwrap();
        assert!(!work.exists() && fixture.opened_if_any().is_none());
    });
}

#[test]
fn copy_that_could_not_be_discarded_is_still_known() {
    let fixture = Fixture::worked();
    fixture.task("x/y", "x");
    give(fixture.folder.path());
    keep(&fixture.upper().join("x"));
    unprivileged(|| {
        assert!(matches!(fixture.opened().discard(), Err(WorkspaceError::Io { .. })));
        let changes = fixture.opened().changes(&Protection::default());
        assert!(matches!(changes, Err(WorkspaceError::Unreadable { .. })), "{changes:?}");
        assert!(fixture.opened().discard().is_err());
        // A task begins again.
        drop(fixture.taken());
        assert!(fixture.changes().is_empty());
    });
    fixture.opened().discard().unwrap();
    assert!(fixture.opened_if_any().is_none());
    let left: Vec<_> = fs::read_dir(fixture.copy()).unwrap().collect();
    assert_eq!(left.len(), 1, "the lock: {left:?}");
}

#[test]
fn stage_that_cannot_be_removed_stops_nothing() {
    let fixture = Fixture::worked();
    give(fixture.folder.path());
    keep(&fixture.tree().join("tree/a"));
    unprivileged(|| {
        // Giving an entry to another user changes it.
        let now = notes::now(&fixture.copy()).unwrap();
        notes::note_beginning(&fixture.tree(), &fixture.copy(), now, BTreeSet::new()).unwrap();
        fixture.apply(&ApplyOptions::default()).unwrap();
        assert!(fixture.opened_if_any().is_none());
    });
    let tree = fixture.snapshot();
    assert_eq!(tree["edited"], "new content");
    assert!(
        tree.keys().any(|path| path.starts_with(".sandbox-apply-") && path.ends_with("a/b")),
        "the control: it could not be removed: {tree:?}"
    );
    drop(fixture.taken());
}

#[test]
fn holes_are_preserved_when_applied() {
    const SIZE: u64 = 1 << 40;
    let fixture = Fixture::new();
    let file = fs::File::create(fixture.upper().join("sparse")).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.write_all_at(b"middle", SIZE / 2 + 100).unwrap();
    file.set_len(SIZE).unwrap();
    fixture.task("plain", &"p".repeat(300_000));
    fs::File::create(fixture.upper().join("empty")).unwrap();
    let needed = || {
        let copy = fixture.opened();
        let changes = copy.changes(&Protection::default()).unwrap();
        let comparison = copy.comparison().unwrap();
        room::needed(&comparison.upper, &comparison.host, &changes).unwrap()
    };
    assert_eq!(needed(), 0, "a second name needs no room");
    for name in ["sparse", "plain"] {
        fs::hard_link(fixture.upper().join(name), fixture.folder.path().join(name)).unwrap();
    }
    let needed = needed();
    assert!((300_000..2_000_000).contains(&needed), "{needed}");

    fixture.apply(&ApplyOptions::default()).unwrap();
    let applied = fs::File::open(fixture.tree().join("sparse")).unwrap();
    let facts = applied.metadata().unwrap();
    assert_eq!(facts.len(), SIZE);
    assert!(facts.blocks() < 4096, "{} blocks", facts.blocks());
    let mut read = [0_u8; 8];
    applied.read_exact_at(&mut read, SIZE / 2 + 99).unwrap();
    assert_eq!(&read, b"\0middle\0");
    applied.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"first\0\0\0");
    let plain = fs::read_to_string(fixture.tree().join("plain")).unwrap();
    assert!(plain.len() == 300_000 && plain.bytes().all(|byte| byte == b'p'));
    assert_eq!(fixture.tree().join("empty").metadata().unwrap().len(), 0);
}

#[test]
fn changes_that_do_not_fit_are_refused_before_copying() {
    assert!(room::check(10, 10).is_ok());
    let refused = room::check(11, 10).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);

    let fixture = Fixture::worked();
    // A file with two names is copied.
    fs::hard_link(fixture.upper().join("edited"), fixture.upper().join("edited-too")).unwrap();
    let before = fixture.snapshot();
    let comparison = fixture.opened().comparison().unwrap();
    let mut points = 0;
    let options = ApplyOptions::default();
    let refused = apply_within(&comparison, &fixture.copy(), &options, 1, &mut |_| {
        points += 1;
        true
    });
    assert!(matches!(refused, Err(WorkspaceError::Io { .. })), "{refused:?}");
    assert_eq!((fixture.snapshot(), points), (before, 0));
    notes::forget(&fixture.copy()).unwrap();
}
