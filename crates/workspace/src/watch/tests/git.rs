//! Paths that the host's git follows, wherever they are.

use super::*;

/// The preparation, the attempt, and the paths that are reported as tampered.
type Case = (&'static str, fn(&Fixture), fn(&Fixture), &'static [&'static str]);

fn nothing(_: &Fixture) {}

fn configured(fixture: &Fixture, text: &str) {
    fixture.write(".git/config", &format!("[core]\n bare = false\n{text}"));
}

const OF_CONFIGURATIONS: [Case; 12] = [
    (
        "hooks elsewhere",
        |fixture| {
            configured(fixture, "[core]\n hooksPath = .githooks\n");
            fixture.write(".githooks/pre-commit", "good");
        },
        |fixture| {
            fixture.write(".githooks/pre-commit", "evil");
            fixture.write(".githooks/post-index-change", "evil");
        },
        &[".githooks/post-index-change", ".githooks/pre-commit"],
    ),
    (
        "hooks in a folder that is not there yet",
        |fixture| configured(fixture, "[core]\n hooksPath = tools/hooks\n"),
        |fixture| fixture.write("tools/hooks/pre-commit", "evil"),
        &["tools/hooks/pre-commit"],
    ),
    (
        "a configuration that is included",
        |fixture| {
            configured(fixture, "[include]\n path = ../.gitconfig\n");
            fixture.write(".gitconfig", "[user]\n name = a\n");
        },
        |fixture| fixture.write(".gitconfig", "[core]\n fsmonitor = ./evil\n"),
        &[".gitconfig"],
    ),
    (
        "the same, where there is none yet",
        |fixture| configured(fixture, "[includeIf \"gitdir:x\"]\n path = ../.gitconfig\n"),
        |fixture| fixture.write(".gitconfig", "[user]\n name = a\n"),
        &[".gitconfig"],
    ),
    (
        "a program",
        |fixture| {
            configured(fixture, "[core]\n fsmonitor = tools/watch\n[alias]\n b = !sh build.sh\n");
            fixture.write("tools/watch", "good");
            fixture.write("build.sh", "good");
        },
        |fixture| {
            fixture.write("tools/watch", "evil");
            fixture.write("build.sh", "evil");
            fixture.write("tools/other", "x");
        },
        &["build.sh", "tools/watch"],
    ),
    (
        "a hook that is a link",
        |fixture| {
            fixture.write("scripts/pre-commit", "good");
            symlink("../../scripts/pre-commit", fixture.tree().join(".git/hooks/pre-commit")).unwrap();
        },
        |fixture| fixture.write("scripts/pre-commit", "evil"),
        &["scripts/pre-commit"],
    ),
    (
        "the folder that such a link leads through",
        |fixture| {
            fixture.write("scripts/pre-commit", "good");
            symlink("../../scripts/pre-commit", fixture.tree().join(".git/hooks/pre-commit")).unwrap();
        },
        |fixture| {
            fixture.rename("scripts", "former");
            fixture.write("evil/pre-commit", "evil");
            symlink("evil", fixture.tree().join("scripts")).unwrap();
        },
        &["evil/pre-commit", "scripts"],
    ),
    (
        "a hook with a second name",
        |fixture| {
            fixture.write("tools/hook", "good");
            fs::hard_link(fixture.tree().join("tools/hook"), fixture.tree().join(".git/hooks/pre-commit"))
                .unwrap();
        },
        |fixture| fixture.write("tools/hook", "evil"),
        &[".git/hooks/pre-commit"],
    ),
    (
        "settings that are a link",
        |fixture| {
            fixture.write("conf/claude/settings.json", "{}");
            symlink("conf/claude", fixture.tree().join(".claude")).unwrap();
        },
        |fixture| {
            fixture.write("conf/claude/settings.json", "evil");
            fixture.write("conf/claude/new.json", "evil");
        },
        &["conf/claude/new.json", "conf/claude/settings.json"],
    ),
    (
        "a second work tree of a repository with hooks elsewhere",
        |fixture| {
            configured(fixture, "[core]\n hooksPath = .githooks\n");
            fixture.write(".githooks/pre-commit", "good");
        },
        |fixture| {
            fixture.write("x/.git", "gitdir: ../.git\n");
            fixture.write("x/.githooks/pre-commit", "evil");
            fixture.write("y/.git", "gitdir: ../.git\n");
            fixture.write("y/.githooks/pre-commit", "good");
        },
        &["x/.git", "x/.githooks/pre-commit", "y/.git"],
    ),
    (
        "a hook that is removed, and one that is replaced by a folder",
        |fixture| {
            fixture.write(".git/hooks/pre-commit", "good");
            fixture.write(".git/hooks/pre-push", "good");
        },
        |fixture| {
            fs::remove_file(fixture.tree().join(".git/hooks/pre-commit")).unwrap();
            fs::remove_file(fixture.tree().join(".git/hooks/pre-push")).unwrap();
            fs::remove_file(fixture.tree().join(".git/hooks/pre-commit.sample")).unwrap();
        },
        &[".git/hooks/pre-commit", ".git/hooks/pre-push"],
    ),
    (
        "a repository that is removed as a whole",
        nothing,
        |fixture| fs::remove_dir_all(fixture.tree().join("sub")).unwrap(),
        &[],
    ),
];

#[test]
fn paths_named_by_the_configuration_are_compared_and_restored() {
    for (name, before, task, expected) in OF_CONFIGURATIONS {
        let fixture = Fixture::new();
        before(&fixture);
        assert_eq!(fixture.tampered(task), expected, "{name}");
        for path in [".githooks/pre-commit", "tools/watch", "scripts/pre-commit", ".git/hooks/pre-commit"] {
            assert_ne!(fixture.read(path).as_deref(), Some("evil"), "{name}: {path}");
        }
    }
}

/// A linked work tree in the tree, as the host's git creates it with relative paths.
fn linked(fixture: &Fixture) {
    fixture.write("w/.git", "gitdir: ../.git/worktrees/w\n");
    for (name, text) in [("HEAD", "x"), ("commondir", "../..\n"), ("gitdir", "../../../w/.git\n")] {
        fixture.write(&format!(".git/worktrees/w/{name}"), text);
    }
}

const OF_POINTERS: [Case; 18] = [
    (
        "a blank that git takes for a part of the name",
        |fixture| fixture.write(" ../evil/HEAD", "x"),
        |fixture| fixture.write("w/.git", "gitdir:  ../sub/.git\n"),
        &["w/.git"],
    ),
    ("no blank", nothing, |fixture| fixture.write("w/.git", "gitdir:../sub/.git\n"), &["w/.git"]),
    (
        "a folder with a blank at its end",
        nothing,
        |fixture| {
            fixture.write("sub/.git /HEAD", "x");
            fixture.write(".git/commondir", "../sub/.git \n");
        },
        &[".git/commondir"],
    ),
    ("outside of the tree", nothing, |fixture| fixture.write("w/.git", "gitdir: /tmp\n"), &["w/.git"]),
    (
        "a linked work tree, as git makes it in a container",
        nothing,
        |fixture| {
            fixture.write("w/.git", "gitdir: /no-such-folder-of-the-host/.git/worktrees/w\n");
            fixture.write(".git/worktrees/w/HEAD", "x");
            fixture.write(".git/worktrees/w/commondir", "../..\n");
            fixture.write(".git/worktrees/w/gitdir", "/no-such-folder-of-the-host/w/.git\n");
        },
        &[".git/worktrees/w/commondir", ".git/worktrees/w/gitdir", "w/.git"],
    ),
    (
        "the same with relative paths, in folders that were there",
        |fixture| fixture.write("deep/er/x", "x"),
        |fixture| {
            fixture.write("sub/deep/.git", "gitdir: ../../.git/worktrees/w\n");
            fixture.write("deep/er/.git", "gitdir: ../../.git\n");
            fixture.write("node_modules/x/.git", "gitdir: ../../.git\n");
            fixture.write(".git/worktrees/w/gitdir", "../../../sub/deep/.git\n");
        },
        &[".git/worktrees/w/gitdir", "deep/er/.git", "node_modules/x/.git", "sub/deep/.git"],
    ),
    (
        "a folder that shares another's repository, and a link to one",
        nothing,
        |fixture| {
            fixture.write("w/.git/HEAD", "x");
            fixture.write("w/.git/commondir", "../../.git\n");
            fs::create_dir(fixture.tree().join("v")).unwrap();
            symlink("../.git", fixture.tree().join("v/.git")).unwrap();
        },
        &["v/.git", "w/.git/commondir"],
    ),
    (
        "a linked work tree of the host that is moved",
        linked,
        |fixture| {
            fixture.rename("w", "moved");
            fixture.write(".git/worktrees/w/gitdir", "../../../moved/.git\n");
        },
        &[".git/worktrees/w/gitdir", "moved/.git"],
    ),
    (
        "one whose pointer is another, or a repository of the task's own",
        |fixture| {
            linked(fixture);
            fixture.write("v/.git", "gitdir: ../.git/worktrees/w\n");
        },
        |fixture| {
            fixture.write("w/.git", "gitdir: ../sub/.git\n");
            fs::remove_file(fixture.tree().join("v/.git")).unwrap();
            fixture.write("v/.git/HEAD", "x");
            fixture.write("v/.git/config", "[remote \"origin\"]\n url = https://a.test/a\n");
        },
        &["v/.git", "w/.git"],
    ),
    ("one that is left alone", linked, |fixture| fixture.write("w/a", "x"), &[]),
    (
        "one that names another repository",
        |fixture| {
            for name in ["HEAD", "objects/x", "refs/x"] {
                fixture.write(&format!(".git/modules/m/{name}"), "x");
            }
        },
        |fixture| {
            fixture.write(".git/worktrees/w/HEAD", "x");
            fixture.write(".git/worktrees/w/commondir", "../../modules/m\n");
        },
        &[".git/worktrees/w/commondir"],
    ),
    (
        "one that names another place",
        nothing,
        |fixture| {
            fixture.write(".git/worktrees/w/HEAD", "x");
            fixture.write(".git/worktrees/w/commondir", "../..\n");
            fixture.write(".git/worktrees/w/gitdir", "/tmp/w/.git\n");
        },
        &[".git/worktrees/w/commondir", ".git/worktrees/w/gitdir"],
    ),
    (
        "a submodule that knows its work tree",
        nothing,
        |fixture| {
            fixture.write(".git/modules/m/HEAD", "x");
            fixture.write(".git/modules/m/objects/x", "x");
            fixture.write(".git/modules/m/refs/x", "x");
            fixture.write(".git/modules/m/config", "[core]\n worktree = ../../../m\n");
            fixture.write("m/.git", "gitdir: ../.git/modules/m\n");
            fixture.write(".gitmodules", "[submodule \"m\"]\n path = m\n url = https://a.test/m\n");
        },
        &["m/.git"],
    ),
    (
        "a submodule whose work tree is another's hooks",
        nothing,
        |fixture| {
            fixture.write(".git/modules/m/HEAD", "x");
            fixture.write(".git/modules/m/objects/x", "x");
            fixture.write(".git/modules/m/refs/x", "x");
            fixture.write(".git/modules/m/config", "[core]\n worktree = ../../hooks\n");
        },
        &[".git/modules/m/config"],
    ),
    (
        "a bare repository that came with the tree",
        |fixture| {
            fixture.write("fixture/HEAD", "x");
            fixture.write("fixture/objects/x", "x");
            fixture.write("fixture/refs/x", "x");
            fixture.write("fixture/config", "[core]\n fsmonitor = evil\n");
        },
        |fixture| fixture.write("w/.git", "gitdir: ../fixture\n"),
        &["w/.git"],
    ),
    (
        "git writes through links",
        nothing,
        |fixture| {
            fs::create_dir_all(fixture.tree().join(".git/logs/refs")).unwrap();
            symlink("/tmp/bashrc", fixture.tree().join(".git/logs/HEAD")).unwrap();
            symlink("/tmp/bashrc", fixture.tree().join(".git/COMMIT_EDITMSG")).unwrap();
            symlink("/tmp", fixture.tree().join(".git/logs/refs/heads")).unwrap();
        },
        &[".git/COMMIT_EDITMSG", ".git/logs/HEAD", ".git/logs/refs/heads"],
    ),
    (
        "repositories where git keeps its own files",
        nothing,
        |fixture| {
            fixture.write(".git/logs/e/.git/config", "[core]\n fsmonitor = evil\n");
            fixture.write(".git/refs/e/.git/hooks/pre-commit", "evil");
            fixture.write(".git/modules/HEAD", "x");
            fixture.write(".git/modules/refs/x", "x");
            fixture.write(".git/modules/objects/e/.git/config", "[core]\n fsmonitor = evil\n");
            fixture.write(".git/lfs/e/.git/config", "[core]\n fsmonitor = evil\n");
        },
        &[
            ".git/lfs/e/.git/config",
            ".git/logs/e/.git/config",
            ".git/modules/objects/e/.git/config",
            ".git/refs/e/.git/hooks/pre-commit",
        ],
    ),
    (
        "a rebase that continues with a command, remotes of old, modules with commands",
        nothing,
        |fixture| {
            fixture.write(".git/rebase-merge/git-rebase-todo", "pick 1\nexec evil\n");
            fixture.write(".git/remotes/origin", "URL: ext::evil\n");
            fixture.write(".gitmodules", "[submodule \"m\"]\n update = !evil\n");
        },
        &[".git/rebase-merge/git-rebase-todo", ".git/remotes/origin", ".gitmodules"],
    ),
];

#[test]
fn pointers_and_git_files_that_lead_elsewhere_are_moved_away() {
    for (name, before, task, expected) in OF_POINTERS {
        let fixture = Fixture::new();
        before(&fixture);
        assert_eq!(fixture.tampered(task), expected, "{name}");
    }
}

#[test]
fn guard_is_not_a_proof_if_there_is_another_way() {
    let fixture = Fixture::new();
    fixture.write(".claude/settings.json", "{}");
    fixture.write("tools/hook", "good");
    fs::hard_link(fixture.tree().join("tools/hook"), fixture.tree().join(".git/hooks/pre-commit")).unwrap();
    let (mounts, watch) = fixture.begin(Protection::default());
    fixture.write("tools/hook", "evil");
    assert!(mounts.iter().any(|mount| mount.container_path() == "/workspace/.git/hooks"));
    assert_eq!(fixture.names(&watch.end(|| {})), [".git/hooks/pre-commit"]);
    assert_eq!(fixture.read(".git/hooks/pre-commit").as_deref(), Some("good"));

    // The same tree and its surroundings, under other names.
    let others = [
        Mount::read_write(fixture.tree(), "/src"),
        Mount::read_write(fixture.folder.path(), "/around"),
        Mount::read_write(fixture.tree().join(".claude"), "/settings"),
    ];
    let mounts = [Mount::read_write(fixture.tree(), "/workspace").protected(Protection::default())];
    let mounts: Vec<Mount> = mounts.into_iter().chain(others).collect();
    let quarantine = fixture.folder.path().join("quarantine");
    let (mounts, watch) = Watch::begin(mounts, quarantine, &mut Views::new(None)).unwrap();
    for place in ["/workspace/.claude", "/src/.claude", "/around/tree/.claude", "/src/.git/hooks"] {
        let guards = mounts.iter().filter(|mount| mount.read_only() && mount.container_path() == place);
        assert_eq!(guards.count(), 1, "{place}");
    }
    fixture.write(".claude/settings.json", "evil");
    assert_eq!(fixture.names(&watch.end(|| {})), [".claude/settings.json"]);
    assert_eq!(fixture.read(".claude/settings.json").as_deref(), Some("{}"));
}

#[test]
fn guards_are_spent_on_rules_first() {
    let fixture = Fixture::new();
    for number in 0..150 {
        fixture.write(&format!(".git/modules/{number}/config"), "[user]\n name = a\n");
        fixture.write(&format!(".git/modules/{number}/HEAD"), "x");
        fixture.write(&format!(".git/modules/{number}/objects/x"), "x");
        fixture.write(&format!(".git/modules/{number}/refs/x"), "x");
    }
    fixture.write(".sandbox/sandbox.yaml", "x");
    fixture.write("zz/deploy.sh", "x");
    let (mounts, _watch) = fixture.begin(Protection::default().with(["zz/deploy.sh"]));
    for place in ["/workspace/.sandbox", "/workspace/zz/deploy.sh"] {
        assert!(mounts.iter().any(|mount| mount.container_path() == place), "{place}");
    }
    assert!(mounts.len() < 110, "{}", mounts.len());
}

#[test]
fn entries_created_in_the_git_folder_take_no_guard_from_its_configuration() {
    let fixture = Fixture::new();
    for number in 0..150 {
        fixture.write(&format!(".git/a{number}/config"), "[user]\n name = a\n");
        fixture.write(&format!(".git/a{number}/HEAD"), "x");
        fixture.write(&format!(".git/a{number}/objects/x"), "x");
        fixture.write(&format!(".git/a{number}/refs/x"), "x");
    }
    let (mounts, _watch) = fixture.begin(Protection::default());
    // Without views, the folder is read-only as a whole.
    assert!(mounts.iter().any(|mount| mount.container_path() == "/workspace/.git" && mount.read_only()));
}
