//! Changes that remove a protected entry.

use super::*;

/// The reason why the change of `path` is withheld.
fn held(bed: &Bed, path: &str) -> Option<HeldBack> {
    let changes = bed.opened().changes(&Protection::default()).unwrap();
    let mut found = changes.iter().filter(|change| change.path == Path::new(path));
    found.next().expect("a change").held_back
}

#[test]
fn hooks_hidden_by_a_new_folder_are_withheld() {
    let bed = Bed::new();
    for path in ["HEAD", "objects/x", "refs/x", "hooks/pre-commit"] {
        bed.host(&format!("bare/{path}"), "x");
    }
    bed.task("bare/hooks/a.sample", "x");
    assert_eq!(held(&bed, "bare/hooks/a.sample"), None, "the control: a sample is one");
    bed.hide("bare/hooks");
    assert_eq!(held(&bed, "bare/hooks/pre-commit"), Some(HeldBack::Protected));
    fs::rename(bed.tree().join("bare/hooks/pre-commit"), bed.tree().join("bare/hooks/b.sample")).unwrap();
    assert_eq!(held(&bed, "bare/hooks/b.sample"), None, "no hook goes");

    // Shared hooks, which a folder of samples would replace.
    fs::remove_dir_all(bed.tree().join("bare/hooks")).unwrap();
    symlink("/elsewhere", bed.tree().join("bare/hooks")).unwrap();
    assert_eq!(held(&bed, "bare/hooks"), Some(HeldBack::Protected));
}

#[test]
fn folder_removed_with_a_protected_entry_is_withheld() {
    let bed = Bed::new();
    for path in ["a/b/.husky/pre-push", "c/.envrc", "d/b/.git/config", "e/b/file", "f/.git/hooks/a.sample"] {
        bed.host(path, "x");
    }
    bed.remove("a");
    bed.task("c", "a file now");
    bed.task("d/new", "x");
    bed.hide("d");
    bed.remove("e");
    bed.remove("f");
    for (path, expected) in [
        ("a", Some(HeldBack::Protected)),
        ("c", Some(HeldBack::Protected)),
        ("d/b", Some(HeldBack::Protected)),
        ("d/new", None),
        ("e", None),
        ("f", None),
    ] {
        assert_eq!(held(&bed, path), expected, "{path}");
    }
    let options = ApplyOptions { force: true, ..ApplyOptions::default() };
    bed.apply(&options).unwrap();
    let tree = bed.snapshot();
    for path in ["a/b/.husky/pre-push", "c/.envrc", "d/b/.git/config"] {
        assert!(tree.contains_key(path), "{path}");
    }
    assert!(!tree.contains_key("e") && tree.contains_key("d/new"));
}

#[test]
fn entries_copied_from_a_protected_path_are_applied_and_prepared_ones_are_not() {
    let bed = Bed::new();
    bed.host(".vscode/settings.json", "known");
    // These are not withheld: an earlier run may have created them.
    for prepared in ["settings.json", "tasks.json", "x/.envrc.new", "envrc"] {
        bed.host(prepared, "prepared");
    }
    for (path, text) in [
        ("w/.vscode/settings.json", "known"),
        ("w/a", "x"),
        ("v/.vscode/settings.json", "another"),
        (".claude/settings.json", "prepared"),
        ("w/.claude/settings.json", "prepared"),
        ("w/.zed/tasks.json", "prepared"),
        ("x/.envrc", "prepared"),
    ] {
        bed.task(path, text);
    }
    for (path, expected) in [
        ("w/.vscode/settings.json", None),
        ("v/.vscode/settings.json", Some(HeldBack::Protected)),
        (".claude/settings.json", Some(HeldBack::Protected)),
        ("w/.claude/settings.json", Some(HeldBack::Protected)),
        ("w/.zed/tasks.json", Some(HeldBack::Protected)),
        ("x/.envrc", Some(HeldBack::Protected)),
    ] {
        assert_eq!(held(&bed, path), expected, "{path}");
    }
}

const EVIL: &str = "[core]\n fsmonitor = evil\n";

/// Writes a task's pointer at a path.
type Write = fn(&Bed, &str);

#[test]
fn task_written_pointers_are_not_applied() {
    let absolute = |bed: &Bed, path: &str| bed.tree().join(path).display().to_string();
    let pointers: [(&str, Write); 6] = [
        ("relative", |bed, path| bed.task(path, "gitdir: ../.git\n")),
        ("of the container", |bed, path| bed.task(path, "gitdir: /workspace/.git/worktrees/x\n")),
        ("leads nowhere", |bed, path| bed.task(path, "gitdir: no-such-folder\n")),
        ("outside", |bed, path| bed.task(path, "gitdir: /tmp\n")),
        ("a link", |bed, path| {
            fs::create_dir_all(bed.upper().join(path).parent().unwrap()).unwrap();
            bed.task_link(path, "../.git");
        }),
        ("a folder that shares another's", |bed, path| {
            bed.task(&format!("{path}/HEAD"), "x");
            bed.task(&format!("{path}/commondir"), "../../.git\n");
        }),
    ];
    for place in ["new/.git", "dir/.git", "deep/er/.git", "known/.git", "node_modules/x/.git"] {
        for (name, write) in pointers {
            let bed = Bed::new();
            bed.host("known/.git", &format!("gitdir: {}\n", absolute(&bed, "repository")));
            drop(bed.taken());
            write(&bed, place);
            bed.task(&place.replace(".git", "beside"), "x");
            let before = bed.snapshot();
            let applied =
                bed.apply(&ApplyOptions { include_held_back: true, ..ApplyOptions::default() }).unwrap();
            assert_eq!(applied.git.left.len(), 1, "{place} {name}: {applied:?}");
            assert_eq!(applied.git.left[0].path, place);
            let after = bed.snapshot();
            assert_eq!(after.get(place), before.get(place), "{place} {name}");
            assert!(after.contains_key(&place.replace(".git", "beside")), "the control: {place} {name}");
        }
    }
}

#[test]
fn pointers_of_the_host_remain_unchanged() {
    let bed = Bed::new();
    let own = "gitdir: /elsewhere/.git/worktrees/w\n";
    bed.host("w/.git", own);
    bed.host("v/.git", own);
    drop(bed.taken());
    // The effect of `mv w moved`; the host has the last entry already.
    bed.remove("w");
    bed.task("moved/.git", own);
    bed.task("v/.git", own);
    assert_eq!(held(&bed, "w"), Some(HeldBack::Protected));
    let left = bed.opened().git_changes(&Protection::default()).unwrap().left;
    let left: Vec<&str> = left.iter().map(|left| left.path.as_str()).collect();
    assert_eq!(left, ["moved/.git"]);
}

#[test]
fn task_written_configuration_of_a_bare_repository_is_not_applied() {
    let bed = Bed::new();
    for name in ["HEAD", "objects/x", "refs/x", "config"] {
        bed.host(&format!("bare/{name}"), "x");
    }
    drop(bed.taken());
    for name in ["config", "config.worktree"] {
        bed.task(&format!("bare/{name}"), "[user]\n name = A\n");
        assert_eq!(held(&bed, &format!("bare/{name}")), Some(HeldBack::Protected));
    }
    bed.apply(&ApplyOptions::default()).unwrap();
    assert_eq!(bed.snapshot()["bare/config"], "x");
    bed.apply(&ApplyOptions { include_held_back: true, ..ApplyOptions::default() }).unwrap();
    assert_ne!(bed.snapshot()["bare/config"], "x", "the control");
}

/// The folder, the first run's files in it, the next run's change, and the reason why that is
/// withheld.
type PutTogether = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
    Option<HeldBack>,
);

const PUT_TOGETHER: [PutTogether; 6] = {
    const REST: &[(&str, &str)] = &[("objects/x", "x"), ("refs/x", "x")];
    const HELD: Option<HeldBack> = Some(HeldBack::Protected);
    [
        ("sub", &[("HEAD", "x"), ("config", EVIL)], REST, HELD),
        ("sub", &[("HEAD", "x"), ("config.worktree", EVIL)], REST, HELD),
        ("sub", &[("HEAD", "x"), ("hooks/pre-commit", "x")], REST, HELD),
        ("sub", &[("HEAD", "x"), ("remotes/origin", "URL: ext::evil")], REST, HELD),
        ("sub", &[("HEAD", "x"), ("config", "[core]\n bare = true\n")], REST, HELD),
        ("sub", &[("HEAD", "x"), ("hooks/a.sample", "x")], REST, None),
    ]
};

#[test]
fn repository_assembled_by_two_runs_is_judged_as_one() {
    for (folder, first, second, expected) in PUT_TOGETHER {
        let bed = Bed::new();
        for (name, text) in first {
            bed.task(&format!("{folder}/{name}"), text);
        }
        bed.apply(&ApplyOptions::default()).unwrap();
        let tree = bed.snapshot();
        assert!(first.iter().all(|(name, _)| tree.contains_key(&format!("{folder}/{name}"))), "{first:?}");
        // The run after the next one still remembers withheld changes.
        for run in 2..4 {
            drop(bed.taken());
            if run == 2 {
                for (name, text) in second {
                    bed.task(&format!("{folder}/{name}"), text);
                }
            }
            bed.task("edited", &format!("run {run}"));
            if run == 2 || expected.is_some() {
                for (name, _) in second {
                    assert_eq!(
                        held(&bed, &format!("{folder}/{name}")),
                        expected,
                        "{folder} {first:?} {name}"
                    );
                }
            }
            bed.apply(&ApplyOptions::default()).unwrap();
            let tree = bed.snapshot();
            for (name, _) in second {
                let is_there = tree.contains_key(&format!("{folder}/{name}"));
                assert_eq!(is_there, expected.is_none(), "{folder} {first:?} {name}");
            }
        }
    }
}
