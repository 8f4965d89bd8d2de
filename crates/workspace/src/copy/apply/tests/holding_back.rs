//! Changes that take something away that is protected.

use super::super::repository::{hold_together, hold_whole};
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

/// Writes a pointer of a task at a path.
type Write = fn(&Bed, &str);

#[test]
fn no_pointer_that_a_task_wrote_is_applied_wherever_it_leads() {
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
            bed.host(".git/HEAD", "x");
            bed.host("known/.git", &format!("gitdir: {}\n", absolute(&bed, ".git")));
            drop(bed.taken());
            write(&bed, place);
            let before = bed.snapshot();
            let changes = bed.opened().changes(&Protection::default()).unwrap();
            let of_pointer = changes.iter().filter(|change| change.path.starts_with(place));
            let is_held = of_pointer.clone().all(|change| change.held_back.is_some());
            assert!(is_held && of_pointer.count() > 0, "{place} {name}: {changes:?}");
            bed.apply(&ApplyOptions::default()).unwrap();
            assert_eq!(bed.snapshot().get(place), before.get(place), "{place} {name}");
            bed.apply(&ApplyOptions { include_held_back: true, ..ApplyOptions::default() }).unwrap();
            assert_ne!(bed.snapshot().get(place), before.get(place), "the control: {place} {name}");
        }
    }
}

#[test]
fn pointers_of_the_host_stay_where_they_are_and_what_they_are() {
    let bed = Bed::new();
    let own = format!("gitdir: {}\n", bed.tree().join(".git/worktrees/w").display());
    bed.host("w/.git", &own);
    bed.host("v/.git", &own);
    for (name, text) in [("HEAD", "x"), ("commondir", "../..\n"), ("gitdir", "/elsewhere/.git\n")] {
        bed.host(&format!(".git/worktrees/w/{name}"), text);
    }
    drop(bed.taken());
    // What `mv w moved`, `git worktree move` and `repair` do; the last is what the host has already.
    bed.remove("w");
    bed.task("moved/.git", &own);
    bed.task(".git/worktrees/w/gitdir", "/workspace/moved/.git\n");
    bed.task(".git/worktrees/w/commondir", "../../evil\n");
    bed.task("v/.git", &own);
    for path in ["w", "moved/.git", ".git/worktrees/w/gitdir", ".git/worktrees/w/commondir"] {
        assert_eq!(held(&bed, path), Some(HeldBack::Protected), "{path}");
    }
    assert!(!bed.changes().iter().any(|change| change.ends_with("v/.git")), "the control");
}

#[test]
fn a_work_tree_that_a_task_added_waits_with_its_part_of_the_repository_and_its_branch_does_not() {
    for outside in [false, true] {
        let bed = Bed::new();
        let (git, protection) = if outside {
            ("", Protection::default().of_git_folder())
        } else {
            (".git/", Protection::default())
        };
        for name in ["HEAD", "objects/x", "refs/x"] {
            bed.host(&format!("{git}{name}"), "x");
        }
        drop(bed.taken());
        bed.task(&format!("{git}refs/heads/new"), "1\n");
        for name in ["HEAD", "commondir", "gitdir", "index", "logs/HEAD"] {
            bed.task(&format!("{git}worktrees/new/{name}"), "x");
        }
        let mut changes = bed.opened().comparison().unwrap().changes(&protection).unwrap();
        hold_together(&mut changes);
        hold_whole(&mut changes);
        for change in changes {
            let waits = change.path.starts_with(format!("{git}worktrees/new"));
            assert_eq!(change.held_back.is_some(), waits, "{}", change.path.display());
        }
    }
}

const CLONED: &str = "[core]\n bare = false\n[remote \"origin\"]\n url = https://a.test/a.git\n";

#[test]
fn no_configuration_that_a_task_wrote_is_applied_whatever_it_says() {
    let bed = Bed::new();
    let repositories = [".git", ".git/modules/m", "sub/.git", "bare"];
    for repository in repositories {
        for name in ["HEAD", "objects/x", "refs/x"] {
            bed.host(&format!("{repository}/{name}"), "x");
        }
        bed.host(&format!("{repository}/config"), CLONED);
    }
    drop(bed.taken());
    let settings = |path: &str| -> Vec<String> {
        let changes = bed.opened().changes(&Protection::default()).unwrap();
        let change = changes.iter().find(|change| change.path == Path::new(path)).expect("a change");
        assert_eq!(change.held_back, Some(HeldBack::Protected), "{path}");
        change.settings.iter().map(|it| format!("{} {:?} {:?}", it.key, it.old, it.new)).collect()
    };
    for repository in repositories {
        let path = format!("{repository}/config");
        for (text, expected) in [
            (format!("{CLONED}# nothing else\n"), vec![]),
            (format!("{CLONED} mirror = true\n"), vec!["remote.origin.mirror None Some(\"true\")"]),
            (format!("{CLONED}[user]\n name = A\n"), vec!["user.name None Some(\"A\")"]),
            (
                CLONED.replace("a.test", "b.test"),
                vec!["remote.origin.url Some(\"https://a.test/a.git\") Some(\"https://b.test/a.git\")"],
            ),
            ("[core".to_owned(), vec!["* None None"]),
        ] {
            bed.task(&path, &text);
            assert_eq!(settings(&path), expected, "{path}: {text}");
        }
        let of_work_tree = format!("{repository}/config.worktree");
        bed.task(&of_work_tree, "[push]\n default = matching\n");
        assert_eq!(settings(&of_work_tree), ["push.default None Some(\"matching\")"]);
    }
    bed.remove("sub/.git/modules");
    fs::remove_file(bed.upper().join("sub/.git/config")).unwrap();
    bed.remove("sub/.git/config");
    assert_eq!(settings("sub/.git/config").len(), 2, "what goes is listed too");
    let before = bed.snapshot();
    bed.apply(&ApplyOptions::default()).unwrap();
    assert_eq!(bed.snapshot(), before);
    bed.apply(&ApplyOptions { include_held_back: true, ..ApplyOptions::default() }).unwrap();
    assert!(bed.snapshot()[".git/config.worktree"].contains("matching"), "the control");
}

#[test]
fn a_history_waits_for_the_settings_without_which_git_does_not_read_it() {
    for (text, waits) in [("[extensions]\n refStorage = reftable\n", true), ("[user]\n name = A\n", false)] {
        let bed = Bed::new();
        bed.host(".git/HEAD", "ref: refs/heads/main\n");
        bed.host(".git/config", "");
        drop(bed.taken());
        bed.task(".git/config", text);
        bed.task(".git/HEAD", "ref: refs/heads/.invalid\n");
        bed.task(".git/reftable/x.ref", "x");
        for path in [".git/HEAD", ".git/reftable/x.ref"] {
            assert_eq!(held(&bed, path), waits.then_some(HeldBack::Repository), "{path}: {text}");
        }
    }
}

/// The folder, what one run writes into it, what the next one does, and why the latter is held back.
type PutTogether = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
    Option<HeldBack>,
);

const PUT_TOGETHER: [PutTogether; 8] = {
    const REST: &[(&str, &str)] = &[("objects/x", "x"), ("refs/x", "x")];
    const HELD: Option<HeldBack> = Some(HeldBack::Protected);
    [
        ("sub", &[("HEAD", "x"), ("config", EVIL)], REST, HELD),
        ("sub", &[("HEAD", "x"), ("config.worktree", EVIL)], REST, HELD),
        ("sub", &[("HEAD", "x"), ("hooks/pre-commit", "x")], REST, HELD),
        ("sub", &[("HEAD", "x"), ("remotes/origin", "URL: ext::evil")], REST, HELD),
        ("sub", &[("HEAD", "x"), ("config", "[core]\n bare = true\n")], REST, HELD),
        ("sub", &[("HEAD", "x"), ("hooks/a.sample", "x")], REST, None),
        (".git/evil", &[("HEAD", "x"), ("config", EVIL)], REST, HELD),
        (".git/worktrees/w", &[("HEAD", "x"), ("config.worktree", EVIL)], &[("commondir", "../..")], HELD),
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
