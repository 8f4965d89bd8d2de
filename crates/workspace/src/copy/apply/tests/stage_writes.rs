//! A task on the work tree itself, which began before an apply, writes to the stage.

use std::fs::FileTimes;

use sandbox_files::tree::Tree;

use super::super::super::commit::refuse_placed;
use super::super::super::journal;
use super::*;

/// All changes, also protected ones.
fn everything() -> ApplyOptions {
    ApplyOptions { include_withheld: true, ..ApplyOptions::default() }
}

/// Applies all changes until `stop` returns `true`.
fn applied(fixture: &Fixture, mut stop: impl FnMut(FailPoint) -> bool) -> Result<Applied, WorkspaceError> {
    let comparison = fixture.opened().comparison().unwrap();
    apply(&comparison, &fixture.copy(), &everything(), &mut |point| !stop(point))
}

/// Kills an apply of all changes at its first `point`.
fn killed(fixture: &Fixture, point: FailPoint) {
    let stopped = applied(fixture, |is| is == point);
    assert!(matches!(stopped, Err(WorkspaceError::Unreadable { .. })), "{stopped:?}");
}

/// The place in the stage of the entry that is put at `path`, or (`old`) was there.
fn staged(fixture: &Fixture, path: &str, old: bool) -> PathBuf {
    let journal = Journal::read(&fixture.copy()).unwrap().unwrap();
    let step = journal.steps.iter().find(|step| step.path == Path::new(path)).unwrap();
    fixture.stage().join(if old { stage::old(step.number) } else { new(step.number) })
}

/// Writes `content`, of the same length as the present one, and hides that as far as a task can.
fn forge(path: &Path, content: &str) {
    let before = path.metadata().unwrap();
    assert_eq!(before.len(), content.len() as u64);
    fs::write(path, content).unwrap();
    let times = FileTimes::new().set_modified(before.modified().unwrap());
    fs::File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

/// A task's changes of protected and other files; the tree has one of the former if `has_envrc` is set.
fn worked(has_envrc: bool) -> Fixture {
    let fixture = Fixture::new();
    if has_envrc {
        fixture.opened().discard().unwrap();
        fixture.host(".envrc", "former");
        drop(fixture.taken());
    }
    for (path, content) in
        [(".envrc", "reviewed"), ("edited", "x"), ("made/.envrc", "reviewed"), ("made/deep/er", "x")]
    {
        fixture.task(path, content);
    }
    fixture
}

#[test]
fn protected_file_that_a_task_wrote_in_the_stage_is_not_placed() {
    type Meddle = fn(&Fixture);
    let cases: [(&str, Meddle); 6] = [
        (".envrc", |fixture| forge(&staged(fixture, ".envrc", false), "attacked")),
        (".envrc", |fixture| {
            let staged = staged(fixture, ".envrc", false);
            fs::set_permissions(staged, fs::Permissions::from_mode(0o777)).unwrap();
        }),
        (".envrc", |fixture| {
            let staged = staged(fixture, ".envrc", false);
            fs::remove_file(&staged).unwrap();
            symlink("same", staged).unwrap();
        }),
        ("made", |fixture| forge(&staged(fixture, "made", false).join(".envrc"), "attacked")),
        ("made", |fixture| write(&staged(fixture, "made", false).join("deploy.sh"), "attacked")),
        ("made", |fixture| fs::remove_file(staged(fixture, "made", false).join("deep/er")).unwrap()),
    ];
    for (number, (path, meddle)) in cases.into_iter().enumerate() {
        for has_envrc in [false, true] {
            let fixture = worked(has_envrc);
            let before = fixture.snapshot();
            killed(&fixture, FailPoint::Journalled);
            meddle(&fixture);
            match WorkspaceCopy::open(fixture.copy()) {
                Err(WorkspaceError::RolledBack { path: refused, source }) => {
                    assert_eq!(refused, Path::new(path), "{number}");
                    assert!(source.to_string().contains(".sandbox-apply-"), "{source}");
                }
                other => panic!("{number}: {other:?}"),
            }
            assert_eq!(fixture.snapshot(), before, "{number}");
            // What was undone counts as changed on the host.
            fixture.apply(&ApplyOptions { force: true, ..everything() }).unwrap();
            let after = fixture.snapshot();
            assert_eq!(after[".envrc"], "reviewed", "the copy is as it was: {number}");
            assert_eq!(after["made/.envrc"], "reviewed");
            assert!(!after.contains_key("made/deploy.sh"));
        }
    }
}

#[test]
fn protected_file_that_a_task_wrote_before_all_was_staged_is_not_placed() {
    let fixture = worked(false);
    let before = fixture.snapshot();
    let mut is_done = false;
    let refused = applied(&fixture, |_| {
        let place = fixture.stage().join("new-0");
        if !is_done && place.exists() {
            forge(&place, "attacked");
            is_done = true;
        }
        false
    });
    assert!(matches!(refused, Err(WorkspaceError::RolledBack { .. })) && is_done, "{refused:?}");
    assert_eq!(fixture.snapshot(), before);
}

#[test]
fn withheld_file_that_a_task_put_into_a_staged_folder_is_not_placed() {
    let fixture = Fixture::new();
    fixture.task("made/file", "x");
    fixture.task("made/.envrc", "x");
    let before = fixture.snapshot();
    let comparison = fixture.opened().comparison().unwrap();
    let stopped = apply(&comparison, &fixture.copy(), &ApplyOptions::default(), &mut |point| {
        point != FailPoint::Journalled
    });
    assert!(matches!(stopped, Err(WorkspaceError::Unreadable { .. })), "{stopped:?}");
    write(&staged(&fixture, "made", false).join(".envrc"), "x");
    let opened = WorkspaceCopy::open(fixture.copy());
    assert!(matches!(opened, Err(WorkspaceError::RolledBack { .. })), "{opened:?}");
    assert_eq!(fixture.snapshot(), before);
}

#[test]
fn protected_file_that_a_task_wrote_between_the_check_and_the_rename_is_taken_back() {
    for has_envrc in [false, true] {
        let fixture = worked(has_envrc);
        let before = fixture.snapshot();
        killed(&fixture, FailPoint::Stepped);
        assert_eq!(fixture.snapshot()[".envrc"], "reviewed");
        let journal = Journal::read(&fixture.copy()).unwrap().unwrap();
        let host = Tree::open(&fixture.tree()).unwrap();
        let stage = Stage::open(&host, &journal.stage).unwrap();
        refuse_placed(&host, &stage, &journal.steps[0]).unwrap();
        forge(&fixture.tree().join(".envrc"), "attacked");
        assert!(refuse_placed(&host, &stage, &journal.steps[0]).is_err());
        assert!(!fixture.tree().join(".envrc").exists());
        let opened = WorkspaceCopy::open(fixture.copy());
        assert!(matches!(opened, Err(WorkspaceError::RolledBack { .. })), "{opened:?}");
        assert_eq!(fixture.snapshot(), before);
    }
}

#[test]
fn file_that_a_task_put_where_former_ones_wait_is_not_restored() {
    for has_envrc in [false, true] {
        let fixture = worked(has_envrc);
        killed(&fixture, FailPoint::Stepped);
        let old = staged(&fixture, ".envrc", true);
        if has_envrc {
            forge(&old, "attack");
        } else {
            fs::write(&old, "attack").unwrap();
        }
        // A later step fails.
        write(&staged(&fixture, "made", false).join("deploy.sh"), "attacked");
        let opened = WorkspaceCopy::open(fixture.copy());
        match (&opened, has_envrc) {
            (Err(WorkspaceError::HalfDone { kept: Some(kept), .. }), true) => assert_eq!(kept, &old),
            (Err(WorkspaceError::RolledBack { .. }), false) => {}
            _ => panic!("{opened:?}"),
        }
        let expected = has_envrc.then(|| "reviewed".to_owned());
        assert_eq!(fixture.snapshot().get(".envrc").cloned(), expected);
    }
}

#[test]
fn apply_of_another_version_is_refused_until_the_copy_is_discarded() {
    let old_version = |text: &str| text.replace(&format!("\"version\":{VERSION}"), "\"version\":4");
    let old_fields = |text: &str| text.replace("\"protected\"", "\"other\"");
    for change in [&old_version as &dyn Fn(&str) -> String, &old_fields] {
        let fixture = worked(false);
        let before = fixture.snapshot();
        killed(&fixture, FailPoint::Journalled);
        let path = fixture.copy().join(journal::NAME);
        let text = fs::read_to_string(&path).unwrap();
        assert_ne!(change(&text), text);
        fs::write(&path, change(&text)).unwrap();
        let error = WorkspaceCopy::settle_in(&fixture.copy()).unwrap_err().to_string();
        assert!(error.contains("journal.json") && error.contains("discard the copy"), "{error}");
        assert!(WorkspaceCopy::discard_in(fixture.copy()).unwrap());
        assert!(fixture.opened_if_any().is_none());
        let mut after = fixture.snapshot();
        after.retain(|path, _| !path.starts_with(".sandbox-apply-"));
        assert_eq!(after, before);
    }
}
