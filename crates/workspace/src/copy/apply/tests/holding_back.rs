//! Changes that take something away that is protected.

use super::*;

/// Why the change of `path` is held back.
fn held(bed: &Bed, path: &str) -> Option<HeldBack> {
    let changes = bed.opened().changes(&Protection::default()).unwrap();
    let mut found = changes.iter().filter(|change| change.path == Path::new(path));
    found.next().expect("a change").held_back
}

#[test]
fn hooks_that_are_hidden_by_a_new_folder_are_held_back() {
    let bed = Bed::new();
    bed.host(".git/hooks/pre-commit", "x");
    bed.task(".git/hooks/a.sample", "x");
    assert_eq!(held(&bed, ".git/hooks/a.sample"), None, "the control: a sample is one");
    bed.hide(".git/hooks");
    assert_eq!(held(&bed, ".git/hooks/pre-commit"), Some(HeldBack::Protected));
    fs::rename(bed.tree().join(".git/hooks/pre-commit"), bed.tree().join(".git/hooks/b.sample")).unwrap();
    assert_eq!(held(&bed, ".git/hooks/b.sample"), None, "no hook goes");

    // Shared hooks, which a folder of samples would take the place of.
    fs::remove_dir_all(bed.tree().join(".git/hooks")).unwrap();
    symlink("/elsewhere", bed.tree().join(".git/hooks")).unwrap();
    assert_eq!(held(&bed, ".git/hooks"), Some(HeldBack::Protected));
}

#[test]
fn a_folder_that_goes_with_something_protected_is_held_back() {
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
fn what_a_second_work_tree_has_too_is_applied_and_what_a_task_prepared_is_not() {
    let bed = Bed::new();
    bed.host(".vscode/settings.json", "known");
    // Nothing holds these back: an earlier run may have made them.
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

#[test]
fn references_and_objects_may_go_and_hooks_and_configurations_may_not() {
    let bed = Bed::new();
    for path in
        [".git/HEAD", ".git/refs/heads/topic", ".git/objects/ab/cd", ".git/hooks/pre-commit", ".git/config"]
    {
        bed.host(path, "x");
    }
    for path in [".git/refs/heads/topic", ".git/objects/ab"] {
        bed.remove(path);
        assert_eq!(held(&bed, path), None, "{path}");
    }
    for path in [".git/hooks/pre-commit", ".git/config"] {
        bed.remove(path);
        assert_eq!(held(&bed, path), Some(HeldBack::Protected), "{path}");
    }
}

const EVIL: &str = "[core]\n fsmonitor = evil\n";

#[test]
fn a_linked_work_tree_belongs_to_the_repository_that_it_lies_in() {
    let bed = Bed::new();
    for repository in [".git", ".git/modules/m", "bare"] {
        for name in ["HEAD", "objects/x", "refs/x"] {
            bed.host(&format!("{repository}/{name}"), "x");
        }
        bed.host(&format!("{repository}/config"), "[core]\n bare = false\n");
    }
    let absolute = bed.tree().join(".git").display().to_string();
    for (own, named, expected) in [
        (".git/worktrees/a", "../..\n", None),
        (".git/worktrees/b", absolute.as_str(), None),
        (".git/modules/m/worktrees/c", "../..\n", None),
        (".git/worktrees/d", "../../modules/m\n", Some(HeldBack::Protected)),
        (".git/worktrees/e", "../../../bare\n", Some(HeldBack::Protected)),
        (".git/worktrees/f", "/no-such-folder-of-the-host/.git\n", Some(HeldBack::Protected)),
        (".git/logs/g", "../..\n", Some(HeldBack::Protected)),
        (".git", "../bare\n", Some(HeldBack::Protected)),
    ] {
        bed.task(&format!("{own}/HEAD"), "x");
        let path = format!("{own}/commondir");
        bed.task(&path, named);
        assert_eq!(held(&bed, &path), expected, "{path}: {named}");
        fs::remove_file(bed.upper().join(&path)).unwrap();
    }
}

#[test]
fn a_work_tree_of_a_repository_outside_belongs_to_that() {
    let bed = Bed::new();
    for name in ["HEAD", "objects/x", "refs/x", "evil/HEAD", "evil/objects/x", "evil/refs/x"] {
        bed.host(name, "x");
    }
    for (name, named) in [("a", "../..\n"), ("b", "../../evil\n"), ("c", "../../../other\n")] {
        bed.task(&format!("worktrees/{name}/HEAD"), "x");
        bed.task(&format!("worktrees/{name}/commondir"), named);
    }
    let changes = bed.opened().comparison().unwrap().changes(&Protection::default().of_git_folder()).unwrap();
    let held = changes.iter().filter(|change| change.held_back.is_some());
    let held: Vec<&str> = held.filter_map(|change| change.path.to_str()).collect();
    assert_eq!(held, ["worktrees/b/commondir", "worktrees/c/commondir"]);
}

#[test]
fn a_folder_that_is_no_repository_yet_is_not_pointed_to() {
    let bed = Bed::new();
    bed.host("evil/HEAD", "x");
    bed.task("w/.git", "gitdir: ../evil\n");
    assert_eq!(
        held(&bed, "w/.git"),
        Some(HeldBack::Protected),
        "what is written into it later is not judged"
    );
    bed.task("evil/objects/x", "x");
    bed.task("evil/refs/x", "x");
    assert_eq!(held(&bed, "w/.git"), None, "the control");
    // Whichever of the two is the host's in the end.
    bed.task("evil/config", EVIL);
    assert_eq!(held(&bed, "w/.git"), Some(HeldBack::Protected));
    fs::rename(bed.upper().join("evil/config"), bed.tree().join("evil/config")).unwrap();
    assert_eq!(held(&bed, "w/.git"), Some(HeldBack::Protected));
}

/// The folder, what one run writes into it, what the next one does, and why the latter is held back.
type PutTogether = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
    Option<HeldBack>,
);

const PUT_TOGETHER: [PutTogether; 9] = {
    const REST: &[(&str, &str)] = &[("objects/x", "x"), ("refs/x", "x")];
    const HEAD: &[(&str, &str)] = &[("HEAD", "x")];
    const HELD: Option<HeldBack> = Some(HeldBack::Protected);
    [
        ("sub", &[("HEAD", "x"), ("config", EVIL)], REST, HELD),
        ("sub", &[("HEAD", "x"), ("config.worktree", EVIL)], REST, HELD),
        ("sub", &[("HEAD", "x"), ("hooks/pre-commit", "x")], REST, HELD),
        ("sub", &[("HEAD", "x"), ("remotes/origin", "URL: ext::evil")], REST, HELD),
        ("sub", &[("HEAD", "x"), ("config", "[core]\n bare = true\n"), ("hooks/a.sample", "x")], REST, None),
        (".git/evil", &[("HEAD", "x"), ("config", EVIL)], REST, HELD),
        (".git/worktrees/w", &[("commondir", "../../evil")], HEAD, HELD),
        (".git/worktrees/w", &[("HEAD", "x"), ("config.worktree", EVIL)], &[("commondir", "../..")], HELD),
        (".git/worktrees/w", &[("commondir", "../..")], HEAD, None),
    ]
};

#[test]
fn a_repository_that_two_runs_put_together_is_judged_as_one() {
    for (folder, first, second, expected) in PUT_TOGETHER {
        let bed = Bed::new();
        bed.host(".git/HEAD", "x");
        drop(bed.taken());
        for (name, text) in first {
            bed.task(&format!("{folder}/{name}"), text);
        }
        bed.apply(&ApplyOptions::default()).unwrap();
        let tree = bed.snapshot();
        assert!(first.iter().all(|(name, _)| tree.contains_key(&format!("{folder}/{name}"))), "{first:?}");
        // What is held back is not forgotten by the run after the next one.
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
