//! The power fails, and the user works on the tree before the next command.

use super::*;

/// Applies, with `fail_points` deciding at each point whether the power fails.
fn applied(fixture: &Fixture, fail_points: FailPoints<'_>) -> Result<Applied, WorkspaceError> {
    let comparison = fixture.opened().comparison().unwrap();
    apply(&comparison, &fixture.copy(), &ApplyOptions::default(), fail_points)
}

/// Applies, with the power failing at the `count`th `point`.
fn crash(fixture: &Fixture, point: FailPoint, count: usize) {
    let mut left = count;
    let stopped = applied(fixture, &mut |is| {
        left -= usize::from(left > 0 && is == point);
        left > 0
    });
    assert!(matches!(stopped, Err(WorkspaceError::Unreadable { .. })), "{stopped:?}");
}

/// A change by the host that makes the last step fail.
fn meddle(fixture: &Fixture) {
    fixture.host("tree/a/b", "by the host");
    fs::rename(fixture.tree().join("tree"), fixture.tree().join("tree2")).unwrap();
    fs::create_dir(fixture.tree().join("tree")).unwrap();
}

/// The tree without the change of [`meddle`] and without a stage that is kept for its owner.
fn unmeddled(fixture: &Fixture) -> BTreeMap<String, String> {
    let mut found = fixture.snapshot();
    found.retain(|path, _| !path.starts_with("tree") && !path.starts_with(".sandbox-apply-"));
    found
}

#[test]
fn crash_at_any_point_applies_all_or_nothing() {
    let (done, undone) = {
        let fixture = Fixture::worked();
        let undone = fixture.snapshot();
        fixture.apply(&ApplyOptions::default()).unwrap();
        (fixture.snapshot(), undone)
    };
    let mut ends = [0, 0];
    for point in 1.. {
        let fixture = Fixture::worked();
        let mut left = point;
        let mut fail_points = |_: FailPoint| {
            left -= usize::from(left > 0);
            left > 0
        };
        if applied(&fixture, &mut fail_points).is_ok() {
            break;
        }
        // The next command, of any kind.
        let left = WorkspaceCopy::open(fixture.copy()).unwrap();
        let is = fixture.snapshot();
        if let Some(copy) = left {
            assert_eq!(is, undone, "point {point}");
            assert_eq!(fixture.changes(), WORKED, "nothing of the copy is lost");
            copy.apply(&ApplyOptions::default()).unwrap();
            assert_eq!(fixture.snapshot(), done);
            ends[0] += 1;
        } else {
            assert_eq!(is, done, "point {point}");
            ends[1] += 1;
        }
    }
    assert!(ends[0] > 10 && ends[1] > 8, "both ends were reached: {ends:?}");
}

#[test]
fn failed_step_undoes_earlier_ones_even_after_another_crash() {
    let expected = unmeddled(&Fixture::worked());
    let mut crashed = Vec::new();
    for point in 1.. {
        let fixture = Fixture::worked();
        let mut left = point;
        let mut fail_points = |is: FailPoint| {
            if is == FailPoint::Journalled {
                meddle(&fixture);
            }
            let fails_now = left == 1;
            left -= usize::from(left > 0);
            if fails_now && !crashed.contains(&is) {
                crashed.push(is);
            }
            if fails_now && is == FailPoint::Cleaning {
                // It removed a part of the stage, whose order is unspecified.
                fs::remove_file(fixture.stage().join("new-0")).ok();
                fs::remove_file(fixture.stage().join("new-3")).ok();
            }
            left > 0
        };
        match applied(&fixture, &mut fail_points) {
            Err(WorkspaceError::RolledBack { path, .. }) => {
                assert_eq!(path, Path::new("tree"));
                assert_eq!(unmeddled(&fixture), expected);
                break;
            }
            stopped => assert!(matches!(stopped, Err(WorkspaceError::Unreadable { .. })), "{stopped:?}"),
        }
        // The next command reports the failed step if it was not reported before.
        match WorkspaceCopy::open(fixture.copy()) {
            Ok(Some(_)) => {}
            Err(WorkspaceError::RolledBack { path, .. }) => assert_eq!(path, Path::new("tree")),
            other => panic!("point {point}: {other:?}"),
        }
        assert_eq!(unmeddled(&fixture), expected, "point {point}");
        fixture.opened();
        assert!(!fixture.copy().join("journal.json").exists());
    }
    let undoing = [FailPoint::Failed, FailPoint::Undone, FailPoint::Cleaning, FailPoint::Cleaned];
    assert!(undoing.iter().all(|point| crashed.contains(point)), "it crashed there: {crashed:?}");
}

#[test]
fn full_disk_does_not_prevent_undoing() {
    let expected = unmeddled(&Fixture::worked());
    for point in 0..14 {
        let fixture = Fixture::worked();
        let partial = fixture.copy().join(".journal.json.new");
        let mut since = None;
        let failed = applied(&fixture, &mut |is| {
            if is == FailPoint::Journalled {
                meddle(&fixture);
                // No other journal can be written from now on.
                fs::create_dir(&partial).unwrap();
                since = Some(0);
            }
            since = since.map(|since| since + 1);
            // Points after the failure: with 0 it does not crash.
            point == 0 || since.is_none_or(|since| since <= 8 + point)
        });
        let ended = matches!(failed, Err(WorkspaceError::RolledBack { .. }));
        assert!(ended || point > 0, "{failed:?}");
        let opened = WorkspaceCopy::open(fixture.copy());
        assert!(
            matches!(opened, Ok(Some(_)) | Err(WorkspaceError::RolledBack { .. })),
            "{point}: {opened:?}"
        );
        assert_eq!(unmeddled(&fixture), expected, "{point}");
        assert!(!fixture.copy().join("journal.json").exists());
        fs::remove_dir(partial).unwrap();
        fixture.opened();
    }
}

#[test]
fn user_changes_after_a_crash_remain() {
    type Case = (&'static str, &'static str, Option<&'static str>, usize);
    let cases: [Case; 4] = [
        ("edited", "edited", Some("edited"), 5),
        ("dir/added", "dir/added", None, 5),
        ("file-to-dir/inner", "file-to-dir", Some("file-to-dir"), 6),
        ("made/deep/new", "made", None, 8),
    ];
    for (path, step, former, count) in cases {
        let fixture = Fixture::worked();
        let before = unmeddled(&fixture);
        crash(&fixture, FailPoint::Stepped, count);
        fixture.host(path, "by the host");
        meddle(&fixture);
        match WorkspaceCopy::open(fixture.copy()) {
            Err(WorkspaceError::HalfDone { path, kept, .. }) => {
                assert_eq!(path, Path::new(step));
                let kept = kept.map(|kept| fs::read_to_string(kept).unwrap());
                assert_eq!(kept.as_deref(), former, "{step}");
            }
            other => panic!("{step}: {other:?}"),
        }
        assert_eq!(fixture.snapshot()[path], "by the host");
        let others = |found: BTreeMap<String, String>| {
            let mut found = found;
            found.retain(|path, _| !path.starts_with(step));
            found
        };
        assert_eq!(others(unmeddled(&fixture)), others(before), "{step}");
        fixture.opened();
    }
}

#[test]
fn file_that_replaced_the_former_one_during_a_step_remains() {
    for in_place in [true, false] {
        let fixture = Fixture::worked();
        crash(&fixture, FailPoint::Journalled, 1);
        // The step completed its first half.
        let edited = fixture.tree().join("edited");
        fs::hard_link(&edited, fixture.stage().join("old-3")).unwrap();
        if !in_place {
            fs::remove_file(&edited).unwrap();
        }
        fixture.host("edited", "by the host");
        let opened = WorkspaceCopy::open(fixture.copy());
        match (&opened, in_place) {
            (Err(WorkspaceError::RolledBack { .. }), true)
            | (Err(WorkspaceError::HalfDone { .. }), false) => {}
            _ => panic!("{opened:?}"),
        }
        assert_eq!(fixture.snapshot()["edited"], "by the host");
        fixture.opened();
    }
}

#[test]
fn missing_stage_is_reported_once() {
    let fixture = Fixture::worked();
    let before = fixture.snapshot();
    crash(&fixture, FailPoint::Staged, 3);
    fs::remove_dir_all(fixture.stage()).unwrap();
    fixture.opened();
    crash(&fixture, FailPoint::Journalled, 1);
    fs::remove_dir_all(fixture.stage()).unwrap();
    assert!(matches!(WorkspaceCopy::open(fixture.copy()), Err(WorkspaceError::Io { .. })));
    assert_eq!(fixture.snapshot(), before);
    assert_eq!(fixture.changes(), WORKED, "the copy still has everything");
    fixture.apply(&ApplyOptions::default()).unwrap();
}

#[test]
fn link_that_replaces_the_stage_is_not_followed() {
    let fixture = Fixture::worked();
    let before = fixture.snapshot();
    crash(&fixture, FailPoint::Journalled, 1);
    let (stage, elsewhere) = (fixture.stage(), fixture.folder.path().join("elsewhere"));
    fs::rename(&stage, &elsewhere).unwrap();
    symlink(&elsewhere, &stage).unwrap();
    assert!(WorkspaceCopy::open(fixture.copy()).is_err());
    fs::remove_file(&stage).unwrap();
    assert_eq!(fixture.snapshot(), before);
    // The control: the next command accepts it as a folder.
    fs::rename(&elsewhere, &stage).unwrap();
    assert!(WorkspaceCopy::open(fixture.copy()).unwrap().is_none());
    assert_ne!(fixture.snapshot(), before);
}

#[test]
fn host_changes_after_the_comparison_remain() {
    for path in ["gone", "edited", "tree/a/b", "tree/a/new"] {
        let fixture = Fixture::worked();
        let mut edited = false;
        let failed = applied(&fixture, &mut |point| {
            if point == FailPoint::Staged && !edited {
                fixture.host(path, "by the host");
                edited = true;
            }
            true
        });
        assert!(matches!(failed, Err(WorkspaceError::RolledBack { .. })), "{path}: {failed:?}");
        assert_eq!(fixture.snapshot()[path], "by the host");
    }
}
