//! Hosts that continue to work while a task runs.

use super::fixture::{Fixture, files, git, run, script, snapshot};
use super::hostile::{made, write};
use crate::{HostRepository, Import, Limits, RefOutcome, Snapshot, View};
use sandbox_files::tree::Tree;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn branch_moved_on_both_sides_keeps_the_hosts_value_and_the_tasks_gets_another_name() {
    let fixture = Fixture::new();
    fixture.script("echo t > a; git commit -qam task; git tag v2; git branch -D side");
    script(&fixture.host(), "echo h > b; git commit -qam host; git tag v2; git branch -f side main");
    let before = fixture.git("rev-parse main v2 side");
    let (head, index) = (fixture.git("symbolic-ref HEAD"), fixture.git("ls-files -s"));
    let report = fixture.import();
    assert_eq!(fixture.git("rev-parse main v2 side"), before);
    assert_eq!((fixture.git("symbolic-ref HEAD"), fixture.git("ls-files -s")), (head, index));
    assert_eq!(
        fixture.git("rev-parse refs/sandbox/run-1/heads/main"),
        git(&fixture.task(), "rev-parse main").trim()
    );
    let kept = report.refs.iter().filter(|change| matches!(change.outcome, RefOutcome::Kept { .. })).count();
    assert_eq!(kept, 2, "{report:?}");
    assert!(report.left.iter().any(|left| left.path == "index"), "{report:?}");
    let state = fixture.host_state();
    fixture.import();
    assert_eq!(fixture.host_state(), state, "the same once more");
}

#[test]
fn hooks_of_the_hosts_configuration_do_not_run() {
    let ran = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let program = format!("touch {}", ran.display());
    let fixture = Fixture::with("sha1", |host| {
        for (number, event) in ["reference-transaction", "post-index-change"].iter().enumerate() {
            let hook = |key: &str| format!("hook.{number}=a.b.{key}");
            run(host, &["git", "config", &hook("command"), &program]);
            run(host, &["git", "config", &hook("event"), event]);
        }
    });
    fixture.script("echo t > a; git add a; git commit -qm task; git branch new; git switch -q new");
    fs::remove_file(&ran).unwrap();
    let report = fixture.import();
    assert!(!ran.exists(), "a hook ran");
    assert!(report.refs.len() > 1, "{report:?}");
    git(&fixture.host(), "update-ref refs/heads/other HEAD");
    let version = git(&fixture.host(), "version");
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    assert_eq!(ran.exists(), minor >= Some(54), "the control: {version}");
    fs::write(&ran, "").unwrap();
}

#[test]
fn stash_made_on_both_sides_is_kept_under_another_name() {
    let fixture = Fixture::new();
    fixture.script("echo t > a; git stash -q; echo u > a; git stash -q");
    script(&fixture.host(), "echo h > b; git stash -q");
    let stashes = fixture.git("stash list");
    fixture.import();
    assert_eq!(fixture.git("stash list"), stashes);
    let kept = fixture.git("for-each-ref --format=%(objectname) refs/sandbox/run-1/stash");
    let mut expected: Vec<String> =
        git(&fixture.task(), "stash list --format=%H").lines().map(str::to_owned).collect();
    expected.sort();
    let mut kept: Vec<String> = kept.lines().map(str::to_owned).collect();
    kept.sort();
    assert_eq!(kept, expected);
}

#[test]
fn host_with_too_many_stashes_keeps_all_of_them() {
    let log = |fixture: &Fixture| fs::read_to_string(fixture.common().join("logs/refs/stash")).unwrap();
    let many = |count: usize, message: &str| {
        let message = message.to_owned();
        Fixture::with("sha1", move |host| {
            script(host, "echo h > b; git stash -q");
            let path = host.join(".git/logs/refs/stash");
            let line = fs::read_to_string(&path).unwrap().replace("WIP", &message);
            fs::write(path, line.repeat(count)).unwrap();
        })
    };
    for (count, message) in [(1000, "WIP"), (1001, "WIP"), (2, &*"x".repeat(1 << 20))] {
        for is_upper in [false, true] {
            let mut fixture = many(count, message);
            fixture.is_upper = is_upper;
            let (before, newest) = (log(&fixture), fixture.git("rev-parse stash"));
            fixture.script("echo t > a; git stash -q");
            let report = fixture.import();
            assert!(log(&fixture) == before, "{count}: {report:?}");
            assert_eq!(fixture.git("rev-parse stash"), newest);
            let kept = fixture.git("for-each-ref --format=%(objectname) refs/sandbox/run-1/stash");
            assert_eq!(kept, git(&fixture.task(), "rev-parse stash").trim(), "{report:?}");
            fixture.import();
            assert!(log(&fixture) == before, "the same once more");
        }
    }
}

#[test]
fn log_entries_changed_by_a_task_for_the_hosts_stashes_are_not_imported() {
    let fixture = Fixture::with("sha1", |host| script(host, "echo h > b; git stash push -q -m mine"));
    let path = fixture.task().join(".git/logs/refs/stash");
    let before = fs::read_to_string(fixture.common().join("logs/refs/stash")).unwrap();
    fs::write(&path, before.replace("mine", "evil").replace("A <a@x>", "E <e@x>")).unwrap();
    fixture.script("echo t > a; git stash push -q -m theirs");
    fixture.import();
    let after = fs::read_to_string(fixture.common().join("logs/refs/stash")).unwrap();
    assert!(after.starts_with(&before), "{after}");
    assert_eq!(fixture.git("stash list --format=%gs"), "On main: theirs\nOn main: mine");
}

#[test]
fn host_that_works_between_prepare_and_commit_loses_nothing() {
    for (between, is_taken) in [
        ("git pack-refs --all --prune", true),
        ("git gc -q --prune=now", true),
        ("git repack -qad; git prune --expire=now", true),
        ("git branch other; git tag other", true),
        ("echo h > b; git commit -qam host", false),
        ("git reset -q --hard HEAD~1", false),
    ] {
        let fixture = Fixture::new();
        fixture.script("echo t > a; git commit -qam task; git branch new");
        let mut host = String::new();
        let report = fixture
            .prepare_and(|import| {
                script(&fixture.host(), between);
                host = fixture.git("rev-parse main");
                import.commit()
            })
            .flatten()
            .unwrap();
        fixture.check();
        let task = git(&fixture.task(), "rev-parse main").trim().to_owned();
        assert_eq!(fixture.git("rev-parse new"), task, "{between}");
        assert_eq!(
            fixture.git("rev-parse main"),
            if is_taken { task.clone() } else { host },
            "{between}: {report:?}"
        );
        if !is_taken {
            assert_eq!(fixture.git("rev-parse refs/sandbox/run-1/heads/main"), task, "{between}");
        }
    }
}

#[test]
fn host_that_commits_during_the_write_is_planned_again() {
    let fixture = Fixture::new();
    fixture.script("echo t > a; git commit -qam task");
    let mut is_done = false;
    // The plan is made after this point, and before the next; git's own check of old values detects
    // the change.
    let report = fixture
        .import_with(&mut |point| {
            if !is_done && point == crate::fail_point::FailPoint::Early {
                is_done = true;
                // The index is locked: the host's git can only do this.
                script(&fixture.host(), "git update-ref HEAD $(git commit-tree -p HEAD -m host HEAD^{tree})");
            }
            true
        })
        .unwrap();
    fixture.check();
    assert!(matches!(report.refs[0].outcome, RefOutcome::Kept { .. }), "{report:?}");
    assert_eq!(fixture.git("log -1 --format=%s main"), "host");
}

#[test]
fn merge_is_not_imported_while_the_host_reverts_or_rebases() {
    let merges = "git switch -q side; echo y > a; git commit -qam y; git switch -q main\n-git merge side";
    for (host, file) in [("-git revert HEAD~1", "REVERT_HEAD"), ("-git rebase side", "rebase-merge")] {
        let fixture = Fixture::with("sha1", |host| {
            script(host, "git switch -qc work; echo 1 > a; git commit -qam 1; echo 2 > a; git commit -qam 2");
            script(host, "git switch -q side; echo z > a; git commit -qam z; git switch -q main");
        });
        fixture.script(merges);
        script(&fixture.host(), &format!("git reset -q --hard work\n{host}"));
        let start = snapshot(&fixture.common());
        let message = fixture.common().join("MERGE_MSG");
        assert!(fixture.common().join(file).exists(), "{file}");
        fs::write(&message, "the host's\n").unwrap();
        let report = fixture.import_with(&mut |_| true).unwrap();
        assert!(report.operation.is_none(), "{report:?}");
        assert!(report.left.iter().any(|left| left.path == "MERGE_HEAD"), "{report:?}");
        assert_eq!(fs::read_to_string(&message).unwrap(), "the host's\n");
        assert!(!fixture.common().join("MERGE_HEAD").exists());
        assert_eq!(snapshot(&fixture.common()).head, start.head);
    }
    // The same if nothing else on the host has changed.
    let fixture = Fixture::new();
    fixture.script(merges);
    fs::write(fixture.common().join("REVERT_HEAD"), fixture.git("rev-parse main")).unwrap();
    fs::write(fixture.common().join("MERGE_MSG"), "the host's\n").unwrap();
    let report = fixture.import_with(&mut |_| true).unwrap();
    assert!(
        report.left.iter().any(|left| left.path == "MERGE_HEAD" && left.why.contains("REVERT_HEAD")),
        "{report:?}"
    );
    assert_eq!(fs::read_to_string(fixture.common().join("MERGE_MSG")).unwrap(), "the host's\n");
}

#[test]
fn branch_checked_out_in_another_work_tree_is_not_moved() {
    let fixture = Fixture::with("sha1", |host| script(host, "git worktree add -q ../linked side"));
    fixture.script("git commit -q --allow-empty -m x; git branch -f side main 2>/dev/null || git update-ref refs/heads/side main");
    let side = fixture.git("rev-parse side");
    let report = fixture.import();
    assert_eq!(fixture.git("rev-parse side"), side);
    assert_eq!(
        fixture.git("rev-parse refs/sandbox/run-1/heads/side"),
        fixture.git("rev-parse main"),
        "{report:?}"
    );
}

#[test]
fn linked_work_tree_has_its_own_head_and_index() {
    let fixture = Fixture::with("sha1", |host| script(host, "git worktree add -q ../linked -b linked"));
    let common = fixture.common();
    let host = HostRepository::open_linked(&common, OsStr::new("linked")).unwrap();
    let start = Snapshot::take(&host).unwrap();
    let before = fixture.host_state();
    script(
        &fixture.task(),
        "cp -a ../linked ../task-linked; echo gitdir: $PWD/.git/worktrees/linked > ../task-linked/.git",
    );
    let linked = fixture.task().join("../task-linked");
    script(&linked, "echo l > l; git add l; git commit -qm l; git switch -qc more; echo m > m; git add m");
    script(&linked, "git update-ref refs/worktree/own HEAD; git update-ref refs/bisect/bad HEAD");
    let view = View::whole(Tree::open(&fixture.task().join(".git")).unwrap());
    let run = "run-2".parse().unwrap();
    let import =
        Import::prepare(&host, &view, &start, &run, &Limits::default(), &fixture.quarantine()).unwrap();
    let report = import.commit().unwrap();
    assert!(report.index && report.head.as_deref() == Some("refs/heads/more"), "{report:?}");
    let left: Vec<&str> = report.left.iter().map(|left| left.path.as_str()).collect();
    for name in ["bisect", "worktree"] {
        let path = format!("worktrees/linked/refs/{name}");
        assert!(left.iter().any(|left| path.starts_with(left)), "{report:?}");
    }
    let of_host = git(&fixture.host().join("../linked"), "ls-files -s");
    assert_eq!(of_host, git(&linked, "ls-files -s"));
    assert_eq!(fixture.git("symbolic-ref HEAD"), "refs/heads/main");
    let main_only = |state: &str| {
        state
            .lines()
            .filter(|line| !line.contains("linked") && !line.contains("more"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(main_only(&fixture.host_state()), main_only(&before));
    assert_eq!(snapshot(&common).head, fixture.start.head);
}

#[test]
fn repository_moved_meanwhile_remains_the_opened_one() {
    let changes = "echo x > c; git add c; git commit -qm c; git tag t; git switch -qc new; git stash -q; echo y > c; git add c; \
                   git config branch.new.remote origin; git config branch.new.merge refs/heads/new";
    for linked in [false, true] {
        let mut fixture =
            Fixture::with("sha1", |host| script(host, "git worktree add -q ../linked -b linked"));
        let common = fixture.common();
        let common_folder = Tree::open(&common).unwrap();
        let host = HostRepository::of(common_folder, linked.then_some(OsStr::new("linked"))).unwrap();
        fixture.start = Snapshot::take(&host).unwrap();
        fixture.script(changes);
        if linked {
            fixture.script("cp .git/index .git/HEAD .git/worktrees/linked; git switch -qf main");
        }
        let moved = fixture.host().with_file_name("moved");
        fs::rename(fixture.host(), &moved).unwrap();
        let other = fixture.host().with_file_name("start");
        symlink(&other, fixture.host()).unwrap();
        let before = files(&other.join(".git"));

        let run = "run-4".parse().unwrap();
        let limits = Limits::default();
        let import =
            Import::prepare(&host, &fixture.view(), &fixture.start, &run, &limits, &fixture.quarantine());
        let report = import.unwrap().commit().unwrap();
        assert!(report.index && report.head.as_deref() == Some("refs/heads/new"), "{report:?}");
        host.set("a.b", &["c".to_owned()]).unwrap();
        assert_eq!(files(&other.join(".git")), before, "something was written to another repository");
        let (tag, setting) = (git(&moved, "rev-parse t new"), git(&moved, "config a.b"));
        assert_eq!((tag.as_str(), setting.trim()), (git(&fixture.task(), "rev-parse t new").as_str(), "c"));
        assert_eq!(git(&moved, "config branch.new.merge").trim(), "refs/heads/new", "{report:?}");

        // The control: opening by path writes to the other repository.
        HostRepository::open(&common).unwrap().set("a.b", &["c".to_owned()]).unwrap();
        assert_ne!(files(&other.join(".git")), before);
    }
}

#[test]
fn relative_paths_are_resolved_for_the_caller() {
    let fixture = Fixture::new();
    fixture.script("git commit -q --allow-empty -m x");
    let up = std::env::current_dir().unwrap().components().skip(1).map(|_| "../").collect::<String>();
    let relative = |path: &Path| Path::new(&up).join(path.strip_prefix("/").unwrap());
    let host = HostRepository::open(&relative(&fixture.common())).unwrap();
    let run = "run-3".parse().unwrap();
    let quarantine = relative(&fixture.quarantine());
    let import =
        Import::prepare(&host, &fixture.view(), &fixture.start, &run, &Limits::default(), &quarantine);
    import.unwrap().commit().unwrap();
    fixture.check();
    assert_eq!(fixture.host_state(), fixture.task_state());
}

#[test]
fn hosts_index_data_about_files_is_kept() {
    let fixture = Fixture::new();
    script(&fixture.host(), "git update-index --assume-unchanged b");
    fixture.script("echo x > c; git add c; git commit -qm c");
    fixture.import();
    assert!(fixture.git("ls-files -v b").starts_with('h'));
    // Only `c` has to be examined.
    let debug = fixture.git("ls-files --debug a");
    assert!(!debug.contains("mtime: 0:0"), "{debug}");
}

#[test]
fn files_hidden_from_git_by_the_host_remain_hidden() {
    for format in ["sha1", "sha256"] {
        let fixture = Fixture::with(format, |host| {
            script(host, "echo x > config; echo x > d; git add config d; git commit -qm more");
            script(host, "git sparse-checkout set --no-cone /a");
        });
        assert_eq!(fixture.git("ls-files -t"), "H a\nS b\nS config\nS d");
        fixture.script("git sparse-checkout disable; for name in a b config; do echo new > $name; done; git commit -qam new; git rm -qf d; git commit -qm d");
        fixture.import_with(&mut |_| true).unwrap();
        assert_eq!(fixture.git("ls-files -t"), "H a\nS b\nS config");
        assert_eq!(fixture.git("ls-files -s"), git(&fixture.task(), "ls-files -s").trim_end());
        assert_eq!(fixture.git("status --porcelain b config"), "");
    }
    // The host's own edits that it hides from git.
    let fixture =
        Fixture::with("sha1", |host| script(host, "git update-index --skip-worktree b; echo own > b"));
    fixture.script("git update-index --no-skip-worktree b; echo new > b; git commit -qam new");
    fixture.import_with(&mut |_| true).unwrap();
    assert_eq!(fixture.git("ls-files -t"), "H a\nS b");
    assert_eq!(fixture.git("status --porcelain b"), "");
}

#[test]
fn unsupported_repositories_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), "init -q --ref-format=reftable table");
    let error = HostRepository::open(&folder.path().join("table/.git")).unwrap_err().to_string();
    assert!(error.contains("reftable"), "{error}");
    let fixture = Fixture::new();
    fixture.script("rm -r .git/logs; git refs migrate --ref-format=reftable");
    let error = fixture.import_with(&mut |_| true).unwrap_err().to_string();
    assert!(error.contains("reftable"), "{error}");
}

#[test]
fn created_repository_has_the_commits_and_none_of_the_settings() {
    for format in ["sha1", "sha256"] {
        let fixture = Fixture::with(format, |_| {});
        fixture.script(
            "git config core.fsmonitor /evil; echo s >> a; git add a; git stash -q; echo x > c; git add c",
        );
        let view = View::whole(Tree::open(&fixture.task().join(".git")).unwrap());
        let place = fixture.task().join("../made");
        fs::create_dir(&place).unwrap();
        let made = HostRepository::create(&place.join(".git"), &view, false).unwrap();
        let start = Snapshot::take(&made).unwrap();
        let run = "run-4".parse().unwrap();
        let import = Import::prepare(&made, &view, &start, &run, &Limits::default(), &fixture.quarantine());
        let report = import.unwrap().commit().unwrap();
        assert_eq!(super::fixture::git_state(&place), fixture.task_state(), "{report:?}");
        let settings = git(&place, "config --local --list --name-only");
        let names = ["core.", "extensions.objectformat"];
        assert!(settings.lines().all(|name| names.iter().any(|known| name.starts_with(known))), "{settings}");
        assert!(!settings.contains("fsmonitor") && !place.join(".git/hooks").exists());
        assert!(HostRepository::create(&place.join(".git"), &view, false).is_err(), "it is there");
        git(&place, "fsck --strict");
    }
}

#[test]
fn set_replaces_all_values_of_a_setting() {
    let fixture = Fixture::new();
    let host = HostRepository::open(&fixture.common()).unwrap();
    let values = |key: &str| {
        let all = git(&fixture.host(), "config --local --list");
        let of_key = all.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        of_key.map(str::to_owned).collect::<Vec<_>>()
    };
    for new in [&["a"][..], &["b", "--c", "b"], &["d"], &[], &[], &["e", "f"]] {
        let new: Vec<String> = new.iter().map(|value| (*value).to_owned()).collect();
        host.set("remote.o.push", &new).unwrap();
        assert_eq!(values("remote.o.push"), new);
    }
    for key in ["--global", "-e", "nosection", "a.b c"] {
        assert!(host.set(key, &["x".to_owned()]).is_err(), "{key}");
    }
}

#[test]
fn folder_that_hides_the_hosts_is_a_complete_repository() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("sub/.git/refs")).unwrap();
    fs::write(at("file"), "").unwrap();
    let upper = Tree::open(folder.path()).unwrap();
    let is_upper = || View::in_upper(&upper, Path::new("sub/.git")).unwrap().unwrap().is_upper();
    let note = |path: &str, name: &str, value: &[u8]| {
        let open = fs::File::open(at(path)).unwrap();
        rustix::fs::fsetxattr(&open, name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    assert!(is_upper());
    note("sub", "trusted.overlay.opaque", b"y");
    assert!(!is_upper());
    for none in ["file", "missing", "sub/missing/.git"] {
        assert!(View::in_upper(&upper, Path::new(none)).unwrap().is_none(), "{none}");
    }
    note("sub/.git", "trusted.overlay.redirect", b"/x");
    assert!(View::in_upper(&upper, Path::new("sub/.git")).is_err());
}

#[test]
fn recorded_paths_are_those_with_other_index_versions() {
    let fixture = Fixture::new();
    let host = HostRepository::open(&fixture.common()).unwrap();
    let recorded = || {
        let recorded = fixture.start.recorded(&host, &fixture.view())?.into_iter();
        Some(recorded.map(|path| path.display().to_string()).collect::<Vec<_>>())
    };
    assert_eq!(recorded(), Some(vec![]));
    fixture.script("echo x > c; git add c; git rm -q b; echo x > a");
    assert_eq!(recorded(), Some(vec!["b".to_owned(), "c".to_owned()]));
    fs::write(fixture.task().join(".git/index"), "no index").unwrap();
    assert_eq!(recorded(), None);
}

#[test]
fn commits_are_imported_although_the_host_lacks_objects() {
    let missing = "1234567890123456789012345678901234567890";
    let fixture = Fixture::new();
    fixture.script("echo x > c; git add c; git commit -qm c");
    fs::write(fixture.common().join("refs/heads/broken"), missing).unwrap();
    fixture.import_with(&mut |_| true).unwrap();
    assert_eq!(fixture.git("rev-parse main"), git(&fixture.task(), "rev-parse main").trim());

    // A host's commit whose parent is missing, which git notices only while walking.
    let fixture = Fixture::new();
    fixture.script("echo x > c; git add c; git commit -qm c; git branch new");
    script(
        &fixture.host(),
        "git switch -qc torn; git commit -q --allow-empty -m gone; git commit -q --allow-empty -m torn; git switch -q main
         rm -f .git/objects/$(git rev-parse torn~1 | sed 's,..,&/,')",
    );
    fixture.import_with(&mut |_| true).unwrap();
    assert_eq!(fixture.git("rev-parse main new"), git(&fixture.task(), "rev-parse main new").trim());
}

#[test]
fn repack_of_the_host_meanwhile_keeps_imported_objects() {
    for repack in ["git repack -qad", "git gc -q --prune=now"] {
        let fixture = Fixture::new();
        fixture.script("echo x > c; git add c; git commit -qm c; git branch new");
        let mut done = 0;
        fixture
            .import_with(&mut |point| {
                if point == crate::fail_point::FailPoint::Packed {
                    script(&fixture.host(), repack);
                    done += 1;
                }
                true
            })
            .unwrap();
        fixture.check();
        assert!(done == 1 && fixture.git("rev-parse new") == git(&fixture.task(), "rev-parse new").trim());
    }
}

#[test]
fn repository_with_links_where_git_writes_is_refused() {
    for (name, is_folder) in [
        ("logs/HEAD", false),
        ("logs", true),
        ("refs/heads/l", true),
        ("refs/heads/l/deep", true),
        ("objects/pack", true),
        ("objects/ab", true),
        ("index", false),
        ("packed-refs", false),
        ("config", false),
        ("MERGE_MSG", false),
        ("worktrees", true),
    ] {
        let fixture = Fixture::new();
        let path = fixture.common().join(name);
        let _ = fs::remove_dir_all(&path);
        let _ = fs::remove_file(&path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let target = fixture.host().with_file_name("target");
        if is_folder {
            fs::create_dir(&target).unwrap();
        } else {
            fs::write(&target, "").unwrap();
        }
        symlink(&target, &path).unwrap();
        let error = HostRepository::open(&fixture.common()).unwrap_err().to_string();
        assert!(error.contains("has a link") && error.contains(name), "{error}");
    }
    // The control: files that an import never writes.
    let fixture = Fixture::new();
    for name in ["hooks/x", "rr-cache", "lfs"] {
        symlink("/nonexistent", fixture.common().join(name)).unwrap();
    }
    HostRepository::open(&fixture.common()).unwrap();
}

#[test]
fn objects_of_another_repository_of_the_hosts_are_not_copied() {
    let fixture = Fixture::new();
    let secret = fixture.host().with_file_name("secret");
    fs::create_dir(&secret).unwrap();
    git(&secret, "init -q");
    script(&secret, "echo secret > key; git add key; git commit -qm secret");
    let id = git(&secret, "rev-parse HEAD").trim().to_owned();
    let alternates = fixture.common().join("objects/info/alternates");
    fs::write(&alternates, format!("{}\n", secret.join(".git/objects").display())).unwrap();
    let tree = git(&fixture.task(), "rev-parse HEAD^{tree}");
    let who = "A <a@x> 1 +0000";
    let commit = format!("tree {tree}parent {id}\nauthor {who}\ncommitter {who}\n\nx\n");
    let grab = made(&fixture.task().join(".git"), "commit", commit.as_bytes());
    write(&fixture.task().join(".git"), "refs/heads/grab", format!("{grab}\n").as_bytes());
    fixture.import_with(&mut |_| true).unwrap();
    fs::remove_file(alternates).unwrap();
    script(&fixture.host(), &format!("-git cat-file -e {id} && touch has"));
    assert!(!fixture.host().join("has").exists(), "the secret was copied");
}
