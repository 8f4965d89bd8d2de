//! The comparison after a run, and its results.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use rustix::process::geteuid;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use tempfile::TempDir;

use super::*;

mod git;
mod others;

/// A protected mount without its guards: the comparison alone.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fixture.write(".git/HEAD", "ref: refs/heads/main\n");
        fixture.write(".git/config", "[core]\n bare = false\n fsmonitor = true\n");
        fixture.write(".git/hooks/pre-commit.sample", "x");
        fixture.write("sub/.git/config", "[core]\n bare = false\n");
        fixture.write("sub/.envrc", "use nix\n");
        fixture.write("linked/.vscode/tasks.json", "{}");
        fixture
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.tree().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.tree().join(from), self.tree().join(to)).unwrap();
    }

    fn close(&self, path: &str, mode: u32) {
        fs::set_permissions(self.tree().join(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.tree().join(path)).ok()
    }

    fn begin(&self, protection: Protection) -> (Vec<Mount>, Watch) {
        let mount = Mount::read_write(self.tree(), "/workspace").protected(protection);
        let quarantine = self.folder.path().join("quarantine");
        Watch::begin(vec![mount], quarantine, &mut Views::new(None)).unwrap()
    }

    /// The paths tampered with by `task`.
    fn tampered(&self, task: impl FnOnce(&Self)) -> Vec<String> {
        let (_, mut watch) = self.begin(Protection::default());
        // Guards would prevent the task from doing this.
        watch.mounts.iter_mut().for_each(|mount| mount.guards.clear());
        task(self);
        let tampered = watch.end(|| {});
        for thing in &tampered {
            assert!(thing.path.symlink_metadata().is_err() || thing.restored, "{thing:?}");
            let is_kept = |to: &PathBuf| to.symlink_metadata().is_ok();
            assert!(
                thing.kind == TamperKind::Deleted || thing.moved_to.as_ref().is_some_and(is_kept),
                "{thing:?}"
            );
        }
        self.names(&tampered)
    }

    /// The tampered paths, in order.
    fn names(&self, tampered: &[TamperedPath]) -> Vec<String> {
        let name = |thing: &TamperedPath| thing.path_in(&self.tree()).display().to_string();
        let mut names: Vec<String> = tampered.iter().map(name).collect();
        names.sort();
        names
    }
}

#[test]
fn existing_protected_entries_are_guarded() {
    let fixture = Fixture::new();
    fixture.write(".envrc", "x");
    fixture.write("ci/deploy.sh", "x");
    symlink("sub", fixture.tree().join(".claude")).unwrap();
    let (mounts, _watch) = fixture.begin(Protection::default().with(["ci/deploy.sh"]));
    let guards: Vec<(&str, bool)> =
        mounts.iter().map(|mount| (mount.container_path(), mount.read_only())).collect();
    let expected = [
        ("/workspace", false),
        ("/workspace/ci/deploy.sh", true),
        ("/workspace/.envrc", true),
        ("/workspace/.git/config", true),
        ("/workspace/.git/hooks", true),
        ("/workspace/sub/.git/config", true),
    ];
    assert_eq!(guards, expected);
    let (mounts, watch) = fixture.begin(Protection::none());
    assert!(mounts.len() == 1 && watch.mounts.is_empty());
}

/// The attempt, its code, and the paths that are reported as tampered.
type Case = (&'static str, fn(&Fixture), &'static [&'static str]);

#[test]
fn new_protected_entries_are_moved_away() {
    let cases: [Case; 8] = [
        ("nothing", |_| {}, &[]),
        ("a hook", |fixture| fixture.write(".git/hooks/pre-commit", "evil"), &[".git/hooks/pre-commit"]),
        (
            "another repository",
            |fixture| fixture.write("new/.git/hooks/post-checkout", "evil"),
            &["new/.git/hooks/post-checkout"],
        ),
        (
            "a clone",
            |fixture| {
                fixture.write("new/.git/config", "[remote \"origin\"]\n url = https://example.com/a.git\n");
                fixture.write("new/.git/hooks/update.sample", "x");
            },
            &[],
        ),
        (
            "a configuration",
            |fixture| fixture.write(".git/config", "[core]\n fsmonitor = ./evil\n"),
            &[".git/config"],
        ),
        (
            "settings of an existing repository",
            |fixture| {
                fixture.write(".git/config", "[core]\n fsmonitor = true\n[user]\n name = a\n");
                fixture.write(".git/config.worktree", "[remote \"origin\"]\n pushurl = https://a.test/a\n");
            },
            &[".git/config", ".git/config.worktree"],
        ),
        (
            "a renamed repository",
            |fixture| {
                fixture.rename(".git", ".git2");
                fixture.write(".git/hooks/pre-push", "evil");
            },
            &[".git/config", ".git/hooks/pre-push"],
        ),
        (
            "a shared folder elsewhere",
            |fixture| fixture.write(".git/commondir", "../evil\n"),
            &[".git/commondir"],
        ),
    ];
    for (name, task, expected) in cases {
        assert_eq!(Fixture::new().tampered(task), expected, "{name}");
    }
}

#[test]
fn renames_and_replacements_do_not_evade_the_comparison() {
    let cases: [Case; 8] = [
        (
            "a folder with the look of a repository",
            |fixture| {
                for path in ["e/HEAD", "e/refs/.envrc", "e/objects/app/.vscode/tasks.json"] {
                    fixture.write(path, "x");
                }
            },
            &["e/objects/app/.vscode/tasks.json", "e/refs/.envrc"],
        ),
        (
            "the real repository's objects",
            |fixture| fixture.write(".git/objects/ab/.envrc", "x"),
            &[".git/objects/ab/.envrc"],
        ),
        (
            "a repository without its name",
            |fixture| {
                for path in ["e/HEAD", "e/objects/x", "e/refs/x"] {
                    fixture.write(path, "x");
                }
                fixture.write("e/config", "[core]\n worktree = ..\n sshCommand = evil\n");
            },
            &["e/config"],
        ),
        (
            "a link to a repository in its store",
            |fixture| {
                fixture.write(".git/objects/e/config", "[core]\n fsmonitor = evil\n");
                fixture.write("x/.git", "gitdir: ../.git/objects/e\n");
            },
            &["x/.git"],
        ),
        (
            "a submodule",
            |fixture| {
                fixture.write(".git/modules/m/HEAD", "x");
                fixture.write(".git/modules/m/objects/x", "x");
                fixture.write(".git/modules/m/refs/x", "x");
                fixture.write("m/.git", "gitdir: ../.git/modules/m\n");
            },
            &["m/.git"],
        ),
        ("an environment", |fixture| fixture.write("sub/.envrc", "evil"), &["sub/.envrc"]),
        (
            "a folder with settings",
            |fixture| {
                fixture.write("a/.claude/settings.json", "evil");
                fixture.write("a/.claude/deep/x", "evil");
            },
            &["a/.claude/deep/x", "a/.claude/settings.json"],
        ),
        (
            "links",
            |fixture| {
                fs::rename(fixture.tree().join("sub/.git"), fixture.tree().join("evil")).unwrap();
                symlink("../evil", fixture.tree().join("sub/.git")).unwrap();
                symlink("/etc", fixture.tree().join(".vscode")).unwrap();
            },
            &[".vscode", "sub/.git"],
        ),
    ];
    for (name, task, expected) in cases {
        assert_eq!(Fixture::new().tampered(task), expected, "{name}");
    }
}

#[test]
fn tampered_configuration_is_restored_and_new_folders_are_removed() {
    let fixture = Fixture::new();
    let before = fixture.read(".git/config");
    fixture.tampered(|fixture| {
        fixture.write(".git/config", "[alias]\n st = !evil\n");
        fixture.write(".claude/deep/x", "evil");
        fixture.write("a/.claude/x", "evil");
    });
    assert_eq!(fixture.read(".git/config"), before);
    assert!(!fixture.tree().join(".claude").exists() && !fixture.tree().join("a/.claude").exists());
    assert!(fixture.tree().join("a").exists());
}

#[test]
fn host_edit_of_a_guarded_path_is_not_reported() {
    let fixture = Fixture::new();
    let (_, watch) = fixture.begin(Protection::default());
    fixture.write(".git/hooks/pre-commit", "the user's");
    fixture.write(".git/config", "[alias]\n st = !the-users\n");
    assert!(watch.end(|| {}).is_empty());

    // A program that replaces the file removes the mount: from then on the task could write there.
    let (_, watch) = fixture.begin(Protection::default());
    fixture.write("new-config", "[alias]\n other = !evil\n");
    fixture.rename("new-config", ".git/config");
    let tampered = watch.end(|| {});
    assert!(tampered.len() == 1 && tampered[0].restored, "{tampered:?}");
}

#[test]
fn quarantined_files_cannot_be_executed() {
    let fixture = Fixture::new();
    let (_, watch) = fixture.begin(Protection::default());
    fixture.write("x/.envrc", "evil");
    fs::set_permissions(fixture.tree().join("x/.envrc"), fs::Permissions::from_mode(0o6777)).unwrap();
    let tampered = watch.end(|| {});
    let mode = tampered[0].moved_to.as_ref().unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn folder_that_looks_like_a_repository_hides_nothing_from_the_next_run() {
    let fixture = Fixture::new();
    for path in ["e/HEAD", "e/refs/x", "e/objects/known/.envrc"] {
        fixture.write(path, "x");
    }
    let tampered = fixture.tampered(|fixture| fixture.write("e/objects/new/.envrc", "y"));
    assert_eq!(tampered, ["e/objects/new/.envrc"]);
}

#[test]
fn name_in_quarantine_is_plain() {
    let fixture = Fixture::new();
    let (_, watch) = fixture.begin(Protection::default());
    fixture.write("a\u{1b}[2J\nb\u{202e}/`x`-1/.envrc", "x");
    let tampered = watch.end(|| {});
    let to = tampered[0].moved_to.as_ref().unwrap();
    assert_eq!(to.file_name().unwrap(), "0-a__2J_b___x_-1_.envrc");
}

/// Runs `work` as a user without rights.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let unprivileged = || {
        if geteuid().is_root() {
            let (user, group) = (rustix::fs::Uid::from_raw(NOBODY), rustix::fs::Gid::from_raw(NOBODY));
            // Of this thread alone.
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
        }
        work()
    };
    let ended = std::thread::scope(|scope| scope.spawn(unprivileged).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

const NOBODY: u32 = 65534;

#[test]
fn closed_folder_hides_nothing() {
    const SETTINGS: &str = ".claude/settings.json";
    let cases: [Case; 8] = [
        (
            "names in it can be opened",
            |fixture| {
                fixture.write(SETTINGS, "evil");
                fixture.close(".claude", 0o311);
            },
            &[SETTINGS],
        ),
        (
            "nothing in it can be opened yet",
            |fixture| {
                fixture.write(SETTINGS, "evil");
                fixture.close(".claude", 0o000);
            },
            &[SETTINGS],
        ),
        (
            "its names can be listed and no more",
            |fixture| {
                fixture.write(SETTINGS, "evil");
                fixture.close(".claude", 0o444);
            },
            &[SETTINGS],
        ),
        (
            "nothing can be removed from it",
            |fixture| {
                fixture.write(".claude/deep/x", "evil");
                fixture.close(".claude/deep", 0o555);
                fixture.close(".claude", 0o555);
            },
            &[".claude/deep/x"],
        ),
        (
            "the mount",
            |fixture| {
                fixture.write(".envrc", "evil");
                fixture.close("", 0o311);
            },
            &[".envrc"],
        ),
        (
            "the mount, altogether",
            |fixture| {
                fixture.write(".envrc", "evil");
                fixture.close("", 0o000);
            },
            &[".envrc"],
        ),
        (
            "a folder in a folder",
            |fixture| {
                fixture.write("a/b/.envrc", "evil");
                fixture.close("a/b/.envrc", 0o000);
                fixture.close("a/b", 0o111);
                fixture.close("a", 0o311);
            },
            &["a/b/.envrc"],
        ),
        (
            "an empty one",
            |fixture| {
                fixture.write("a/x", "x");
                fixture.close("a", 0o311);
            },
            &[],
        ),
    ];
    for (name, task, expected) in cases {
        as_nobody(|| {
            let fixture = Fixture::new();
            assert_eq!(fixture.tampered(task), expected, "{name}");
            assert!(!fixture.tree().join(".claude").exists(), "{name}");
        });
    }
}

#[test]
fn folder_closed_before_the_run_is_left_alone() {
    as_nobody(|| {
        let fixture = Fixture::new();
        fixture.write("own/.envrc", "the user's");
        fixture.close("own", 0o311);
        let tampered = fixture.tampered(|_| {});
        assert!(tampered.is_empty(), "{tampered:?}");
        let mode = fs::metadata(fixture.tree().join("own")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o311);

        // Another folder in its place is not the one that was closed.
        let tampered = fixture.tampered(|fixture| {
            fixture.rename("own", "former");
            fixture.write("own/.envrc", "evil");
            fixture.close("own", 0o311);
            fixture.close("former", 0o755);
        });
        assert_eq!(tampered, ["former/.envrc", "own/.envrc"]);
    });
}

#[test]
fn inaccessible_folder_is_reported_once() {
    let fixture = Fixture::new();
    let watched = || fixture.begin(Protection::default()).1;
    let watch = watched();
    // It has no path that is short enough for the kernel.
    let mut folder = Tree::open(&fixture.tree()).unwrap().folder(Path::new("")).unwrap();
    for _ in 0..20 {
        let name = "x".repeat(250);
        rustix::fs::mkdirat(&folder, &name, rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        folder = rustix::fs::openat(&folder, &name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    let tampered = watch.end(|| {});
    assert_eq!(tampered.len(), 1, "{tampered:?}");
    assert!(tampered[0].moved_to.is_none() && tampered[0].path.starts_with(fixture.tree()));
    let problem = tampered[0].problem.as_deref().unwrap_or_default();
    assert!(problem.starts_with("it cannot be searched: "), "{problem}");
    assert!(watched().end(|| {}).is_empty());
}

/// If files cannot be given away, everything belongs to this user, and is handled accordingly.
#[test]
fn entries_of_other_users_are_moved_or_reported() {
    const SOMEBODY: u32 = 12345;
    let is_root = geteuid().is_root();
    let fixture = as_nobody(Fixture::new);
    let watch = as_nobody(|| fixture.begin(Protection::default()).1);
    as_nobody(|| {
        for path in [".envrc", "a/.envrc", "b/.envrc"] {
            fixture.write(path, "evil");
            fixture.close(path, 0o755);
        }
    });
    // This user cannot list `a`; entries of `b` cannot even be opened.
    for (path, mode) in [(".envrc", 0o755), ("a", 0o711), ("b", 0o700)] {
        let path = fixture.tree().join(path);
        if is_root {
            chown(&path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut tampered = as_nobody(|| watch.end(|| {}));
    tampered.sort_by(|one, other| one.path.cmp(&other.path));
    let reported: Vec<(&Path, bool)> = tampered
        .iter()
        .map(|thing| (thing.path_in(fixture.folder.path()), thing.moved_to.is_some()))
        .collect();
    let path = Path::new;
    let expected = if is_root {
        vec![(path("tree/.envrc"), true), (path("tree/a"), false)]
    } else {
        ["tree/.envrc", "tree/a/.envrc", "tree/b/.envrc"].map(|it| (path(it), true)).to_vec()
    };
    assert_eq!(reported, expected);
}
