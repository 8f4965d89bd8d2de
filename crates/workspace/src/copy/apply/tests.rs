//! Applies with obstacles: the host's changes, the protection, and loss of power.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::super::super::overlay::overlay_folders;
use super::super::state::{CopyInUse, WorkspaceCopy};
use super::*;

mod after_apply;
mod crashes;
mod git;
mod hostile;
mod recorded;
mod stage_writes;
mod withheld;

/// A work tree, and a copy of it that a task has worked on.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// The tree as it is before the task.
    fn new() -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(fixture.tree()).unwrap();
        for path in ["same", "edited", "gone", "dir/gone", "tree/a/b", "file-to-dir", "dir-to-file/x"] {
            fixture.host(path, path);
        }
        symlink("same", fixture.tree().join("link")).unwrap();
        drop(fixture.taken());
        fixture
    }

    /// A running task's hold on the copy.
    fn taken(&self) -> CopyInUse {
        let mut copy = WorkspaceCopy::take(&self.tree(), &self.copy()).unwrap();
        copy.wait().unwrap();
        copy
    }

    /// One change of each kind, as an overlay has it after a task.
    fn worked() -> Self {
        let fixture = Self::new();
        fixture.task("edited", "new content");
        fixture.task("same", "same");
        fixture.task("dir/added", "x");
        fixture.task("made/deep/er", "x");
        fixture.remove("gone");
        fixture.remove("dir/gone");
        fixture.remove("tree");
        fixture.task("file-to-dir/inner", "x");
        fixture.task("dir-to-file", "x");
        fixture.task_link("link", "edited");
        fixture
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("host")
    }

    fn copy(&self) -> PathBuf {
        self.folder.path().join("copy")
    }

    fn upper(&self) -> PathBuf {
        overlay_folders(&self.copy()).0
    }

    fn host(&self, path: &str, content: &str) {
        write(&self.tree().join(path), content);
    }

    fn task(&self, path: &str, content: &str) {
        write(&self.upper().join(path), content);
    }

    fn task_link(&self, path: &str, target: &str) {
        symlink(target, self.upper().join(path)).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.upper().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }

    /// Hides the host's entry at `path` in the upper layer.
    fn hide(&self, path: &str) {
        let folder = fs::File::open(self.upper().join(path)).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::fsetxattr(&folder, "trusted.overlay.opaque", b"y", flags).unwrap();
    }

    /// The stage of an apply that was interrupted.
    fn stage(&self) -> PathBuf {
        let journal = Journal::read(&self.copy()).unwrap().unwrap();
        self.tree().join(journal.stage)
    }

    fn opened(&self) -> WorkspaceCopy {
        WorkspaceCopy::open(self.copy()).unwrap().unwrap()
    }

    fn opened_if_any(&self) -> Option<WorkspaceCopy> {
        WorkspaceCopy::open(self.copy()).unwrap()
    }

    fn changes(&self) -> Vec<String> {
        let changes = self.opened().changes(&Protection::default()).unwrap();
        changes.iter().map(|change| format!("{} {}", change.kind.letter(), change.path.display())).collect()
    }

    fn apply(&self, options: &ApplyOptions) -> Result<Applied, WorkspaceError> {
        self.opened().apply(options)
    }

    /// All entries in the tree, with their contents or targets.
    fn snapshot(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut pending = vec![self.tree()];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.tree()).unwrap().display().to_string();
                let kind = path.symlink_metadata().unwrap().file_type();
                if kind.is_dir() {
                    found.insert(name, "/".to_owned());
                    pending.push(path);
                } else if kind.is_symlink() {
                    found.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
                } else {
                    found.insert(name, fs::read_to_string(&path).unwrap());
                }
            }
        }
        found
    }
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

const WORKED: [&str; 12] = [
    "A dir/added",
    "D dir/gone",
    "M dir-to-file",
    "M edited",
    "M file-to-dir",
    "A file-to-dir/inner",
    "D gone",
    "M link",
    "A made",
    "A made/deep",
    "A made/deep/er",
    "D tree",
];

#[test]
fn changes_match_the_overlay_and_equal_entries_are_not_listed() {
    assert_eq!(Fixture::worked().changes(), WORKED);
    assert!(Fixture::new().changes().is_empty());
}

#[test]
fn applied_tree_equals_the_tasks_view_and_the_copy_is_removed() {
    let fixture = Fixture::worked();
    let applied = fixture.apply(&ApplyOptions::default()).unwrap();
    assert_eq!(applied.applied.len(), WORKED.len());
    let expected = [
        ("dir", "/"),
        ("dir/added", "x"),
        ("dir-to-file", "x"),
        ("edited", "new content"),
        ("file-to-dir", "/"),
        ("file-to-dir/inner", "x"),
        ("link", "-> edited"),
        ("made", "/"),
        ("made/deep", "/"),
        ("made/deep/er", "x"),
        ("same", "same"),
    ];
    let expected = expected.map(|(path, content)| (path.to_owned(), content.to_owned()));
    assert_eq!(fixture.snapshot(), BTreeMap::from(expected));
    assert!(WorkspaceCopy::open(fixture.copy()).unwrap().is_none());
}

#[test]
fn adopted_changes_are_judged_and_applied_like_a_tasks() {
    let fixture = Fixture::new();
    fixture.opened().discard().unwrap();
    let adopt = |fail: bool| {
        WorkspaceCopy::adopt(&fixture.tree(), &fixture.copy(), |upper| {
            if fail {
                return Err(WorkspaceError::unreadable(upper, "a failure"));
            }
            fs::create_dir(upper).unwrap();
            fixture.task("edited", "new content");
            fixture.task(".envrc", "x");
            fixture.remove("gone");
            // After `adopt` has begun.
            fixture.host("edited", "by the host");
            Ok(["gone".into()].into())
        })
    };
    let copy = adopt(false).unwrap();
    let changes = copy.changes(&Protection::default()).unwrap();
    let marks: Vec<_> = changes
        .iter()
        .map(|change| (change.path.to_str().unwrap(), change.conflict, change.withheld.is_some()))
        .collect();
    assert_eq!(marks, [(".envrc", false, true), ("edited", true, false), ("gone", true, false)]);
    let before = fixture.snapshot();
    assert!(matches!(copy.apply(&ApplyOptions::default()), Err(WorkspaceError::Conflict { .. })));
    assert_eq!(fixture.snapshot(), before);
    assert!(matches!(adopt(false), Err(WorkspaceError::Busy { .. })), "there is a copy");
    fixture.opened().discard().unwrap();
    let copy = adopt(false).unwrap();
    let options = ApplyOptions { protection: Protection::default(), force: true, ..ApplyOptions::default() };
    assert_eq!(copy.apply(&options).unwrap().withheld.len(), 1);
    let after = fixture.snapshot();
    assert_eq!(after["edited"], "new content");
    assert!(!after.contains_key("gone") && !after.contains_key(".envrc"));
    fixture.opened().discard().unwrap();
    assert!(adopt(true).is_err());
    assert!(fixture.opened_if_any().is_none());
}

#[test]
fn discarded_copy_leaves_the_tree_unchanged() {
    let fixture = Fixture::worked();
    let before = fixture.snapshot();
    fixture.opened().discard().unwrap();
    assert_eq!(fixture.snapshot(), before);
    assert!(WorkspaceCopy::open(fixture.copy()).unwrap().is_none());
    assert!(!fixture.upper().exists());
}

#[test]
fn conflict_with_the_host_stops_everything() {
    type Meddle = fn(&Fixture);
    let cases: [(&str, Meddle); 6] = [
        ("edited", |fixture| fixture.host("edited", "by the host")),
        ("edited", |fixture| {
            fs::remove_file(fixture.tree().join("edited")).unwrap();
        }),
        ("gone", |fixture| fixture.host("gone", "by the host")),
        ("dir/added", |fixture| fixture.host("dir/added", "by the host")),
        ("tree", |fixture| fixture.host("tree/a/new", "by the host")),
        ("tree", |fixture| fixture.host("tree/a/b", "by the host")),
    ];
    for (path, meddle) in cases {
        let fixture = Fixture::worked();
        meddle(&fixture);
        let before = fixture.snapshot();
        match fixture.apply(&ApplyOptions::default()) {
            Err(WorkspaceError::Conflict { paths }) => assert_eq!(paths, [PathBuf::from(path)]),
            other => panic!("{path}: {other:?}"),
        }
        assert_eq!(fixture.snapshot(), before, "{path}");
        assert_eq!(
            fixture
                .opened()
                .changes(&Protection::default())
                .unwrap()
                .iter()
                .filter(|change| change.conflict)
                .count(),
            1
        );
        let forced = ApplyOptions { force: true, ..ApplyOptions::default() };
        fixture.apply(&forced).unwrap();
    }
}

#[test]
fn other_host_changes_remain() {
    let fixture = Fixture::worked();
    fixture.host("dir/new-on-the-host", "h");
    fixture.host("same", "h");
    // The task wrote the former content back; the host's later change conflicts with that.
    assert!(matches!(fixture.apply(&ApplyOptions::default()), Err(WorkspaceError::Conflict { .. })));
    fixture.host("same", "same");
    fixture.apply(&ApplyOptions::default()).unwrap();
    assert_eq!(fixture.snapshot()["dir/new-on-the-host"], "h");
}

#[test]
fn protected_paths_and_outward_links_are_withheld_until_requested() {
    let fixture = || {
        let fixture = Fixture::new();
        fixture.task(".git/HEAD", "ref: x\n");
        fixture.task(".git/hooks/pre-commit", "evil");
        fixture.task("new/file", "x");
        fixture.task("bare/HEAD", "x");
        fixture.task("bare/objects/x", "x");
        fixture.task("bare/refs/x", "x");
        fixture.task("bare/config", "[core]\n sshCommand = evil\n");
        fixture.task("sub/.envrc", "evil");
        fixture.task(".claude/settings.json", "evil");
        fixture.task_link("absolute", "/etc/passwd");
        fixture.task_link("climbs", "../../x");
        fixture.task_link("sub/sly", "dir/../../../x");
        fixture.task_link("sub/fine", "../same");
        fixture
    };
    let held = fixture();
    let applied = held.apply(&ApplyOptions::default()).unwrap();
    let withheld: Vec<&str> = applied.withheld.iter().map(|change| change.path.to_str().unwrap()).collect();
    let expected =
        [".claude", ".claude/settings.json", "absolute", "bare", "climbs", "sub/.envrc", "sub/sly"];
    assert_eq!(withheld, expected);
    let tree = held.snapshot();
    assert!(expected.iter().all(|path| !tree.contains_key(*path)), "{tree:?}");
    assert!(tree.contains_key("new") && tree.contains_key("sub/fine"));

    // They remain in the copy, which has no other differences now.
    assert_eq!(held.changes().len(), expected.len());
    held.apply(&ApplyOptions { include_withheld: true, ..ApplyOptions::default() }).unwrap();
    assert_eq!(held.snapshot()[".claude/settings.json"], "evil");

    let all = fixture();
    let options = ApplyOptions { include_withheld: true, ..ApplyOptions::default() };
    assert!(all.apply(&options).unwrap().withheld.is_empty());
    let tree = all.snapshot();
    assert_eq!(tree["sub/.envrc"], "evil", "the control: it would be there");
    assert!(!tree.contains_key(".git") && tree.contains_key("new/file"), "{tree:?}");
}

#[test]
fn special_files_and_privilege_bits_are_not_applied() {
    let fixture = Fixture::new();
    fixture.task("tool", "x");
    fs::set_permissions(fixture.upper().join("tool"), fs::Permissions::from_mode(0o6755)).unwrap();
    mknodat(CWD, fixture.upper().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let options = ApplyOptions { include_withheld: true, ..ApplyOptions::default() };
    let applied = fixture.apply(&options).unwrap();
    assert_eq!(fixture.tree().join("tool").metadata().unwrap().mode() & 0o7777, 0o755);
    assert!(applied.applied[0].privileged);
    assert_eq!(applied.withheld[0].withheld, Some(Withheld::Special));
    assert!(!fixture.tree().join("pipe").exists());
}

#[test]
fn folder_that_became_a_link_on_the_host_is_not_followed() {
    let fixture = Fixture::worked();
    let outside = tempfile::tempdir().unwrap();
    fs::remove_dir_all(fixture.tree().join("dir")).unwrap();
    symlink(outside.path(), fixture.tree().join("dir")).unwrap();
    let before = fixture.snapshot();
    assert!(matches!(fixture.apply(&ApplyOptions::default()), Err(WorkspaceError::Conflict { .. })));
    assert_eq!(fixture.snapshot(), before);
    let forced = ApplyOptions { force: true, ..ApplyOptions::default() };
    fixture.apply(&forced).unwrap();
    assert!(fixture.tree().join("dir").symlink_metadata().unwrap().is_dir(), "the link itself was replaced");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn opaque_folder_hides_its_former_content() {
    let fixture = Fixture::new();
    fixture.task("dir/added", "x");
    fixture.hide("dir");
    let folder = fs::File::open(fixture.upper().join("dir")).unwrap();
    assert_eq!(fixture.changes(), ["A dir/added", "D dir/gone"]);
    rustix::fs::fsetxattr(&folder, "trusted.overlay.redirect", b"/x", rustix::fs::XattrFlags::empty())
        .unwrap();
    let changes = fixture.opened().changes(&Protection::default());
    assert!(matches!(changes, Err(WorkspaceError::Unreadable { .. })), "{changes:?}");
}

#[test]
fn copy_in_use_is_left_alone() {
    let fixture = Fixture::worked();
    let held = fixture.taken();
    assert_eq!(fixture.changes(), WORKED, "the next task continues where the last one ended");
    assert!(matches!(fixture.apply(&ApplyOptions::default()), Err(WorkspaceError::Busy { .. })));
    assert!(matches!(fixture.opened().discard(), Err(WorkspaceError::Busy { .. })));
    assert!(matches!(
        WorkspaceCopy::take(&fixture.tree(), &fixture.copy()),
        Err(WorkspaceError::Busy { .. })
    ));
    drop(held);
    let other = tempfile::tempdir().unwrap();
    assert!(WorkspaceCopy::take(other.path(), &fixture.copy()).is_err(), "a copy of another tree");
}
