//! Changes that remove a protected entry.

use super::*;

/// The reason why the change of `path` is withheld.
fn held(fixture: &Fixture, path: &str) -> Option<Withheld> {
    let changes = fixture.opened().changes(&Protection::default()).unwrap();
    let mut found = changes.iter().filter(|change| change.path == Path::new(path));
    found.next().expect("a change").withheld
}

#[test]
fn hooks_hidden_by_a_new_folder_are_withheld() {
    let fixture = Fixture::new();
    for path in ["HEAD", "objects/x", "refs/x", "hooks/pre-commit"] {
        fixture.host(&format!("bare/{path}"), "x");
    }
    fixture.task("bare/hooks/a.sample", "x");
    assert_eq!(held(&fixture, "bare/hooks/a.sample"), None, "the control: a sample is one");
    fixture.hide("bare/hooks");
    assert_eq!(held(&fixture, "bare/hooks/pre-commit"), Some(Withheld::Protected));
    fs::rename(fixture.tree().join("bare/hooks/pre-commit"), fixture.tree().join("bare/hooks/b.sample"))
        .unwrap();
    assert_eq!(held(&fixture, "bare/hooks/b.sample"), None, "no hook goes");

    // Shared hooks, which a folder of samples would replace.
    fs::remove_dir_all(fixture.tree().join("bare/hooks")).unwrap();
    symlink("/elsewhere", fixture.tree().join("bare/hooks")).unwrap();
    assert_eq!(held(&fixture, "bare/hooks"), Some(Withheld::Protected));
}

#[test]
fn folder_removed_with_a_protected_entry_is_withheld() {
    let fixture = Fixture::new();
    for path in ["a/b/.husky/pre-push", "c/.envrc", "d/b/.git/config", "e/b/file", "f/.git/hooks/a.sample"] {
        fixture.host(path, "x");
    }
    fixture.remove("a");
    fixture.task("c", "a file now");
    fixture.task("d/new", "x");
    fixture.hide("d");
    fixture.remove("e");
    fixture.remove("f");
    for (path, expected) in [
        ("a", Some(Withheld::Protected)),
        ("c", Some(Withheld::Protected)),
        ("d/b", Some(Withheld::Protected)),
        ("d/new", None),
        ("e", None),
        ("f", None),
    ] {
        assert_eq!(held(&fixture, path), expected, "{path}");
    }
    let options = ApplyOptions { force: true, ..ApplyOptions::default() };
    fixture.apply(&options).unwrap();
    let tree = fixture.snapshot();
    for path in ["a/b/.husky/pre-push", "c/.envrc", "d/b/.git/config"] {
        assert!(tree.contains_key(path), "{path}");
    }
    assert!(!tree.contains_key("e") && tree.contains_key("d/new"));
}

#[test]
fn entries_copied_from_a_protected_path_are_applied_and_prepared_ones_are_not() {
    let fixture = Fixture::new();
    fixture.host(".vscode/settings.json", "known");
    // These are not withheld: an earlier run may have created them.
    for prepared in ["settings.json", "tasks.json", "x/.envrc.new", "envrc"] {
        fixture.host(prepared, "prepared");
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
        fixture.task(path, text);
    }
    for (path, expected) in [
        ("w/.vscode/settings.json", None),
        ("v/.vscode/settings.json", Some(Withheld::Protected)),
        (".claude/settings.json", Some(Withheld::Protected)),
        ("w/.claude/settings.json", Some(Withheld::Protected)),
        ("w/.zed/tasks.json", Some(Withheld::Protected)),
        ("x/.envrc", Some(Withheld::Protected)),
    ] {
        assert_eq!(held(&fixture, path), expected, "{path}");
    }
}

const EVIL: &str = "[core]\n fsmonitor = evil\n";

/// Writes a task's pointer at a path.
type Write = fn(&Fixture, &str);

#[test]
fn task_written_pointers_are_not_applied() {
    let absolute = |fixture: &Fixture, path: &str| fixture.tree().join(path).display().to_string();
    let pointers: [(&str, Write); 6] = [
        ("relative", |fixture, path| fixture.task(path, "gitdir: ../.git\n")),
        ("of the container", |fixture, path| fixture.task(path, "gitdir: /workspace/.git/worktrees/x\n")),
        ("leads nowhere", |fixture, path| fixture.task(path, "gitdir: no-such-folder\n")),
        ("outside", |fixture, path| fixture.task(path, "gitdir: /tmp\n")),
        ("a link", |fixture, path| {
            fs::create_dir_all(fixture.upper().join(path).parent().unwrap()).unwrap();
            fixture.task_link(path, "../.git");
        }),
        ("a folder that shares another's", |fixture, path| {
            fixture.task(&format!("{path}/HEAD"), "x");
            fixture.task(&format!("{path}/commondir"), "../../.git\n");
        }),
    ];
    for place in ["new/.git", "dir/.git", "deep/er/.git", "known/.git", "node_modules/x/.git"] {
        for (name, write) in pointers {
            let fixture = Fixture::new();
            fixture.host("known/.git", &format!("gitdir: {}\n", absolute(&fixture, "repository")));
            drop(fixture.taken());
            write(&fixture, place);
            fixture.task(&place.replace(".git", "beside"), "x");
            let before = fixture.snapshot();
            let applied =
                fixture.apply(&ApplyOptions { include_withheld: true, ..ApplyOptions::default() }).unwrap();
            assert_eq!(applied.git.left.len(), 1, "{place} {name}: {applied:?}");
            assert_eq!(applied.git.left[0].path, place);
            let after = fixture.snapshot();
            assert_eq!(after.get(place), before.get(place), "{place} {name}");
            assert!(after.contains_key(&place.replace(".git", "beside")), "the control: {place} {name}");
        }
    }
}

#[test]
fn pointers_of_the_host_remain_unchanged() {
    let fixture = Fixture::new();
    let own = "gitdir: /elsewhere/.git/worktrees/w\n";
    fixture.host("w/.git", own);
    fixture.host("v/.git", own);
    drop(fixture.taken());
    // The effect of `mv w moved`; the host has the last entry already.
    fixture.remove("w");
    fixture.task("moved/.git", own);
    fixture.task("v/.git", own);
    assert_eq!(held(&fixture, "w"), Some(Withheld::Protected));
    let left = fixture.opened().git_changes(&Protection::default()).unwrap().left;
    let left: Vec<&str> = left.iter().map(|left| left.path.as_str()).collect();
    assert_eq!(left, ["moved/.git"]);
}

#[test]
fn task_written_configuration_of_a_bare_repository_is_not_applied() {
    let fixture = Fixture::new();
    for name in ["HEAD", "objects/x", "refs/x", "config"] {
        fixture.host(&format!("bare/{name}"), "x");
    }
    drop(fixture.taken());
    for name in ["config", "config.worktree"] {
        fixture.task(&format!("bare/{name}"), "[user]\n name = A\n");
        assert_eq!(held(&fixture, &format!("bare/{name}")), Some(Withheld::Protected));
    }
    fixture.apply(&ApplyOptions::default()).unwrap();
    assert_eq!(fixture.snapshot()["bare/config"], "x");
    fixture.apply(&ApplyOptions { include_withheld: true, ..ApplyOptions::default() }).unwrap();
    assert_ne!(fixture.snapshot()["bare/config"], "x", "the control");
}

/// The folder, the first run's files in it, the next run's change, and the reason why that is
/// withheld.
type PutTogether = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
    Option<Withheld>,
);

const PUT_TOGETHER: [PutTogether; 6] = {
    const REST: &[(&str, &str)] = &[("objects/x", "x"), ("refs/x", "x")];
    const HELD: Option<Withheld> = Some(Withheld::Protected);
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
        let fixture = Fixture::new();
        for (name, text) in first {
            fixture.task(&format!("{folder}/{name}"), text);
        }
        fixture.apply(&ApplyOptions::default()).unwrap();
        let tree = fixture.snapshot();
        assert!(first.iter().all(|(name, _)| tree.contains_key(&format!("{folder}/{name}"))), "{first:?}");
        // The run after the next one still remembers withheld changes.
        for run in 2..4 {
            drop(fixture.taken());
            if run == 2 {
                for (name, text) in second {
                    fixture.task(&format!("{folder}/{name}"), text);
                }
            }
            fixture.task("edited", &format!("run {run}"));
            if run == 2 || expected.is_some() {
                for (name, _) in second {
                    assert_eq!(
                        held(&fixture, &format!("{folder}/{name}")),
                        expected,
                        "{folder} {first:?} {name}"
                    );
                }
            }
            fixture.apply(&ApplyOptions::default()).unwrap();
            let tree = fixture.snapshot();
            for (name, _) in second {
                let is_there = tree.contains_key(&format!("{folder}/{name}"));
                assert_eq!(is_there, expected.is_none(), "{folder} {first:?} {name}");
            }
        }
    }
}
