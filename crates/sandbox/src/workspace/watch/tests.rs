//! What is compared after a run, and what becomes of it.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A protected mount whose guards are not there: what the comparison does alone.
struct Bed {
    folder: TempDir,
}

impl Bed {
    fn new() -> Self {
        let bed = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        bed.write(".git/HEAD", "ref: refs/heads/main\n");
        bed.write(".git/config", "[core]\n bare = false\n fsmonitor = true\n");
        bed.write(".git/hooks/pre-commit.sample", "x");
        bed.write("sub/.git/config", "[core]\n bare = false\n");
        bed.write("sub/.envrc", "use nix\n");
        bed.write("linked/.vscode/tasks.json", "{}");
        bed
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

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.tree().join(path)).ok()
    }

    fn begin(&self, protection: Protection) -> (Vec<Mount>, Watch) {
        let mount = Mount::read_write(self.tree(), "/workspace").protected(protection);
        Watch::begin(vec![mount], self.folder.path().join("quarantine")).unwrap()
    }

    /// What is planted when `task` has run.
    fn planted(&self, task: impl FnOnce(&Self)) -> Vec<String> {
        let (_, mut watch) = self.begin(Protection::default());
        // Where there are guards, a task cannot do what these do.
        watch.mounts.iter_mut().for_each(|mount| mount.guards.clear());
        task(self);
        let planted = watch.end();
        for thing in &planted {
            assert!(
                thing.path.symlink_metadata().is_err() || thing.restored,
                "{thing:?}"
            );
            assert!(
                thing
                    .moved_to
                    .as_ref()
                    .is_some_and(|to| to.symlink_metadata().is_ok()),
                "{thing:?}"
            );
        }
        planted
            .iter()
            .map(|thing| thing.path_in(&self.tree()).display().to_string())
            .collect()
    }
}

#[test]
fn what_is_there_is_guarded_and_its_repository_cannot_be_renamed() {
    let bed = Bed::new();
    bed.write(".envrc", "x");
    bed.write("ci/deploy.sh", "x");
    symlink("sub", bed.tree().join(".claude")).unwrap();
    let (mounts, _watch) = bed.begin(Protection::default().with(["ci/deploy.sh"]));
    let guards: Vec<(&str, bool)> = mounts
        .iter()
        .map(|mount| (mount.container_path(), mount.read_only()))
        .collect();
    let expected = [
        ("/workspace", false),
        ("/workspace/.envrc", true),
        ("/workspace/.git/config", true),
        ("/workspace/.git/hooks", true),
        ("/workspace/ci/deploy.sh", true),
        ("/workspace/.git", false),
    ];
    assert_eq!(guards, expected);
    let (mounts, watch) = bed.begin(Protection::none());
    assert!(mounts.len() == 1 && watch.mounts.is_empty());
}

/// What is tried, how, and what of it is planted.
type Case = (&'static str, fn(&Bed), &'static [&'static str]);

#[test]
fn what_appears_is_moved_out_of_the_way() {
    let cases: [Case; 8] = [
        ("nothing", |_| {}, &[]),
        (
            "a hook",
            |bed| bed.write(".git/hooks/pre-commit", "evil"),
            &[".git/hooks/pre-commit"],
        ),
        (
            "another repository",
            |bed| bed.write("new/.git/hooks/post-checkout", "evil"),
            &["new/.git/hooks/post-checkout"],
        ),
        (
            "a clone",
            |bed| {
                bed.write(
                    "new/.git/config",
                    "[remote \"origin\"]\n url = https://example.com/a.git\n",
                );
                bed.write("new/.git/hooks/update.sample", "x");
            },
            &[],
        ),
        (
            "a configuration",
            |bed| bed.write(".git/config", "[core]\n fsmonitor = ./evil\n"),
            &[".git/config"],
        ),
        (
            "a harmless configuration",
            |bed| bed.write(".git/config", "[core]\n fsmonitor = true\n[user]\n name = a\n"),
            &[],
        ),
        (
            "a renamed repository",
            |bed| {
                bed.rename(".git", ".git2");
                bed.write(".git/hooks/pre-push", "evil");
            },
            &[".git/hooks/pre-push"],
        ),
        (
            "a shared folder elsewhere",
            |bed| bed.write(".git/commondir", "../evil\n"),
            &[".git/commondir"],
        ),
    ];
    for (name, task, expected) in cases {
        assert_eq!(Bed::new().planted(task), expected, "{name}");
    }
}

#[test]
fn tricks_with_places_do_not_help() {
    let cases: [Case; 6] = [
        (
            "a repository without its name",
            |bed| {
                for path in ["e/HEAD", "e/objects/x", "e/refs/x"] {
                    bed.write(path, "x");
                }
                bed.write("e/config", "[core]\n worktree = ..\n sshCommand = evil\n");
            },
            &["e/config"],
        ),
        (
            "a link to a repository in its store",
            |bed| {
                bed.write(".git/objects/e/config", "[core]\n fsmonitor = evil\n");
                bed.write("x/.git", "gitdir: ../.git/objects/e\n");
            },
            &["x/.git"],
        ),
        (
            "a submodule",
            |bed| {
                bed.write(".git/modules/m/HEAD", "x");
                bed.write(".git/modules/m/objects/x", "x");
                bed.write(".git/modules/m/refs/x", "x");
                bed.write("m/.git", "gitdir: ../.git/modules/m\n");
            },
            &[],
        ),
        (
            "an environment",
            |bed| bed.write("sub/.envrc", "evil"),
            &["sub/.envrc"],
        ),
        (
            "a folder with settings",
            |bed| {
                bed.write("a/.claude/settings.json", "evil");
                bed.write("a/.claude/deep/x", "evil");
            },
            &["a/.claude/deep/x", "a/.claude/settings.json"],
        ),
        (
            "links",
            |bed| {
                fs::rename(bed.tree().join("sub/.git"), bed.tree().join("evil")).unwrap();
                symlink("../evil", bed.tree().join("sub/.git")).unwrap();
                symlink("/etc", bed.tree().join(".vscode")).unwrap();
            },
            &[".vscode", "sub/.git"],
        ),
    ];
    for (name, task, expected) in cases {
        assert_eq!(Bed::new().planted(task), expected, "{name}");
    }
}

#[test]
fn a_configuration_is_as_it_was_and_folders_that_were_made_are_gone() {
    let bed = Bed::new();
    let before = bed.read(".git/config");
    bed.planted(|bed| {
        bed.write(".git/config", "[alias]\n st = !evil\n");
        bed.write(".claude/deep/x", "evil");
        bed.write("a/.claude/x", "evil");
    });
    assert_eq!(bed.read(".git/config"), before);
    assert!(!bed.tree().join(".claude").exists() && !bed.tree().join("a/.claude").exists());
    assert!(bed.tree().join("a").exists());
}

#[test]
fn what_a_guard_stood_over_is_the_hosts_own_business() {
    let bed = Bed::new();
    let (_, watch) = bed.begin(Protection::default());
    bed.write(".git/hooks/pre-commit", "the user's");
    bed.write(".git/config", "[alias]\n st = !the-users\n");
    assert!(watch.end().is_empty());

    // A program that replaces the file takes the mount away: from then on the task could write there.
    let (_, watch) = bed.begin(Protection::default());
    bed.write("new-config", "[alias]\n other = !evil\n");
    bed.rename("new-config", ".git/config");
    let planted = watch.end();
    assert!(planted.len() == 1 && planted[0].restored, "{planted:?}");
}

#[test]
fn whatever_is_in_quarantine_cannot_be_executed() {
    use std::os::unix::fs::PermissionsExt as _;
    let bed = Bed::new();
    let (_, watch) = bed.begin(Protection::default());
    bed.write("x/.envrc", "evil");
    fs::set_permissions(bed.tree().join("x/.envrc"), fs::Permissions::from_mode(0o6777)).unwrap();
    let planted = watch.end();
    let mode = planted[0]
        .moved_to
        .as_ref()
        .unwrap()
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
}
