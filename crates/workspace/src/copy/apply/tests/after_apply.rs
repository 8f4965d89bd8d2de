//! Placing files in the tree, and the rest of the copy after changes were withheld.

use std::os::unix::fs::FileTypeExt as _;

use super::*;

fn withheld(fixture: &Fixture) -> Vec<String> {
    let changes = fixture.opened().changes(&Protection::default()).unwrap();
    let held = changes.iter().filter(|change| change.withheld.is_some());
    held.map(|change| change.path.display().to_string()).collect()
}

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().unwrap().ino()
}

#[test]
fn unchanged_file_is_linked_and_changed_file_is_copied() {
    let fixture = Fixture::new();
    for path in ["plain", "folder/plain", "two-names", "with-attribute", "setuid"] {
        fixture.task(path, path);
    }
    fs::hard_link(fixture.upper().join("two-names"), fixture.upper().join("other-name")).unwrap();
    let attribute = fs::File::open(fixture.upper().join("with-attribute")).unwrap();
    rustix::fs::fsetxattr(&attribute, "user.x", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    fs::set_permissions(fixture.upper().join("setuid"), fs::Permissions::from_mode(0o4755)).unwrap();
    let before = |path: &str| inode(&fixture.upper().join(path));
    let inodes = [
        ("plain", before("plain"), true),
        ("folder/plain", before("folder/plain"), true),
        ("two-names", before("two-names"), false),
        ("other-name", before("other-name"), false),
        ("with-attribute", before("with-attribute"), false),
        ("setuid", before("setuid"), false),
    ];
    fixture.apply(&ApplyOptions::default()).unwrap();
    for (path, before, is_linked) in inodes {
        let applied = fixture.tree().join(path).metadata().unwrap();
        assert_eq!(applied.ino() == before, is_linked, "{path}");
        assert_eq!((applied.nlink(), applied.mode() & 0o7000), (1, 0), "{path}");
    }
    assert_eq!(fixture.snapshot()["with-attribute"], "with-attribute");
}

/// All paths in `root`.
fn paths_in(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().display().to_string());
            if path.is_dir() {
                pending.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn applied_changes_are_no_longer_in_the_copy() {
    let fixture = Fixture::worked();
    fixture.host("hidden/.envrc", "of the host");
    fixture.host("hidden/other", "of the host");
    drop(fixture.taken());
    fixture.task("new/.envrc", "evil");
    fixture.task("new/fine", "fine");
    fixture.task("sub/.claude/a/b", "evil");
    fixture.task("sub/fine", "fine");
    fixture.task("hidden/fine", "fine");
    fixture.hide("hidden");
    mknodat(CWD, fixture.upper().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::set_permissions(fixture.upper().join("new"), fs::Permissions::from_mode(0o710)).unwrap();
    let held = withheld(&fixture);
    assert_eq!(
        held,
        ["hidden/.envrc", "new/.envrc", "pipe", "sub/.claude", "sub/.claude/a", "sub/.claude/a/b"]
    );
    fixture.apply(&ApplyOptions::default()).unwrap();
    assert_eq!(fixture.snapshot()["new/fine"], "fine");
    assert!(!fixture.snapshot().contains_key("hidden/other"));

    let upper = fixture.upper();
    let expected = [
        "hidden",
        "hidden/.envrc",
        "new",
        "new/.envrc",
        "sub",
        "sub/.claude",
        "sub/.claude/a",
        "sub/.claude/a/b",
    ];
    assert_eq!(paths_in(&upper), expected);
    assert!(upper.join("hidden/.envrc").symlink_metadata().unwrap().file_type().is_char_device());
    assert_eq!(upper.join("new").metadata().unwrap().mode() & 0o7777, 0o710);

    // The next task sees the host's changes there, and they are not a conflict.
    fixture.host("edited", "by the host");
    fixture.host("new/fine", "by the host");
    drop(fixture.taken());
    fixture.task("edited", "by the second task");
    assert_eq!(
        fixture
            .changes()
            .iter()
            .filter(|change| !held.iter().any(|held| change.ends_with(held)))
            .collect::<Vec<_>>(),
        ["M edited"]
    );
    fixture.apply(&ApplyOptions::default()).unwrap();
    assert_eq!(fixture.snapshot()["edited"], "by the second task");
    let all = ApplyOptions { include_withheld: true, ..ApplyOptions::default() };
    fixture.apply(&all).unwrap();
    assert!(fixture.opened_if_any().is_none() && !fixture.tree().join("hidden/.envrc").exists());
    assert_eq!(fixture.snapshot()["sub/.claude/a/b"], "evil");
}

#[test]
fn change_on_both_sides_before_the_next_task_remains_a_conflict() {
    let fixture = Fixture::worked();
    fixture.host("edited", "by the host");
    fs::remove_file(fixture.tree().join("link")).unwrap();
    fixture.host("unrelated", "by the host");
    drop(fixture.taken());
    drop(fixture.taken());
    fixture.task("unrelated", "by the second task, which saw it");
    match fixture.apply(&ApplyOptions::default()) {
        Err(WorkspaceError::Conflict { paths }) => {
            assert_eq!(paths, [PathBuf::from("edited"), PathBuf::from("link")]);
        }
        other => panic!("{other:?}"),
    }
    let forced = ApplyOptions { force: true, ..ApplyOptions::default() };
    fixture.apply(&forced).unwrap();
    assert_eq!(fixture.snapshot()["edited"], "new content");
}

#[test]
fn conflict_of_a_withheld_change_survives_the_apply_of_the_rest() {
    let fixture = Fixture::new();
    fixture.task(".envrc", "evil");
    fixture.task("edited", "new content");
    fixture.host(".envrc", "of the host");
    fixture.apply(&ApplyOptions::default()).unwrap();
    drop(fixture.taken());
    let all = ApplyOptions { include_withheld: true, ..ApplyOptions::default() };
    assert!(matches!(fixture.apply(&all), Err(WorkspaceError::Conflict { .. })));
}

#[test]
fn crash_at_any_point_keeps_withheld_changes() {
    let worked = || {
        let fixture = Fixture::worked();
        fixture.task("made/.envrc", "evil");
        fixture
    };
    let undone = worked().snapshot();
    let done = {
        let fixture = worked();
        fixture.apply(&ApplyOptions::default()).unwrap();
        fixture.snapshot()
    };
    let mut ends = [0, 0];
    for point in 1.. {
        let fixture = worked();
        let comparison = fixture.opened().comparison().unwrap();
        let mut left = point;
        let mut fail_points = |_: FailPoint| {
            left -= usize::from(left > 0);
            left > 0
        };
        let applied = apply(&comparison, &fixture.copy(), &ApplyOptions::default(), &mut fail_points);
        let copy = fixture.opened();
        assert_eq!(withheld(&fixture), ["made/.envrc"], "point {point}");
        if fixture.snapshot() == undone {
            copy.apply(&ApplyOptions::default()).unwrap();
            ends[0] += 1;
        } else {
            ends[1] += 1;
        }
        assert_eq!(fixture.snapshot(), done, "point {point}");
        assert_eq!(fixture.changes(), ["A made/.envrc"], "point {point}");
        if applied.is_ok() {
            break;
        }
    }
    assert!(ends[0] > 10 && ends[1] > 8, "both ends were reached: {ends:?}");
}
