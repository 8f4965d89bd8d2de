//! Paths that the host's git follows, wherever they are.

use super::*;

/// The preparation, the attempt, and the paths that are reported as tampered.
type Case = (&'static str, fn(&Bed), fn(&Bed), &'static [&'static str]);

fn nothing(_: &Bed) {}

fn configured(bed: &Bed, text: &str) {
    bed.write(".git/config", &format!("[core]\n bare = false\n{text}"));
}

const OF_CONFIGURATIONS: [Case; 12] = [
    (
        "hooks elsewhere",
        |bed| {
            configured(bed, "[core]\n hooksPath = .githooks\n");
            bed.write(".githooks/pre-commit", "good");
        },
        |bed| {
            bed.write(".githooks/pre-commit", "evil");
            bed.write(".githooks/post-index-change", "evil");
        },
        &[".githooks/post-index-change", ".githooks/pre-commit"],
    ),
    (
        "hooks in a folder that is not there yet",
        |bed| configured(bed, "[core]\n hooksPath = tools/hooks\n"),
        |bed| bed.write("tools/hooks/pre-commit", "evil"),
        &["tools/hooks/pre-commit"],
    ),
    (
        "a configuration that is included",
        |bed| {
            configured(bed, "[include]\n path = ../.gitconfig\n");
            bed.write(".gitconfig", "[user]\n name = a\n");
        },
        |bed| bed.write(".gitconfig", "[core]\n fsmonitor = ./evil\n"),
        &[".gitconfig"],
    ),
    (
        "the same, where there is none yet",
        |bed| configured(bed, "[includeIf \"gitdir:x\"]\n path = ../.gitconfig\n"),
        |bed| bed.write(".gitconfig", "[user]\n name = a\n"),
        &[".gitconfig"],
    ),
    (
        "a program",
        |bed| {
            configured(bed, "[core]\n fsmonitor = tools/watch\n[alias]\n b = !sh build.sh\n");
            bed.write("tools/watch", "good");
            bed.write("build.sh", "good");
        },
        |bed| {
            bed.write("tools/watch", "evil");
            bed.write("build.sh", "evil");
            bed.write("tools/other", "x");
        },
        &["build.sh", "tools/watch"],
    ),
    (
        "a hook that is a link",
        |bed| {
            bed.write("scripts/pre-commit", "good");
            symlink("../../scripts/pre-commit", bed.tree().join(".git/hooks/pre-commit")).unwrap();
        },
        |bed| bed.write("scripts/pre-commit", "evil"),
        &["scripts/pre-commit"],
    ),
    (
        "the folder that such a link leads through",
        |bed| {
            bed.write("scripts/pre-commit", "good");
            symlink("../../scripts/pre-commit", bed.tree().join(".git/hooks/pre-commit")).unwrap();
        },
        |bed| {
            bed.rename("scripts", "former");
            bed.write("evil/pre-commit", "evil");
            symlink("evil", bed.tree().join("scripts")).unwrap();
        },
        &["evil/pre-commit", "scripts"],
    ),
    (
        "a hook with a second name",
        |bed| {
            bed.write("tools/hook", "good");
            fs::hard_link(bed.tree().join("tools/hook"), bed.tree().join(".git/hooks/pre-commit")).unwrap();
        },
        |bed| bed.write("tools/hook", "evil"),
        &[".git/hooks/pre-commit"],
    ),
    (
        "settings that are a link",
        |bed| {
            bed.write("conf/claude/settings.json", "{}");
            symlink("conf/claude", bed.tree().join(".claude")).unwrap();
        },
        |bed| {
            bed.write("conf/claude/settings.json", "evil");
            bed.write("conf/claude/new.json", "evil");
        },
        &["conf/claude/new.json", "conf/claude/settings.json"],
    ),
    (
        "a second work tree of a repository with hooks elsewhere",
        |bed| {
            configured(bed, "[core]\n hooksPath = .githooks\n");
            bed.write(".githooks/pre-commit", "good");
        },
        |bed| {
            bed.write("x/.git", "gitdir: ../.git\n");
            bed.write("x/.githooks/pre-commit", "evil");
            bed.write("y/.git", "gitdir: ../.git\n");
            bed.write("y/.githooks/pre-commit", "good");
        },
        &["x/.git", "x/.githooks/pre-commit", "y/.git"],
    ),
    (
        "a hook that is removed, and one that is replaced by a folder",
        |bed| {
            bed.write(".git/hooks/pre-commit", "good");
            bed.write(".git/hooks/pre-push", "good");
        },
        |bed| {
            fs::remove_file(bed.tree().join(".git/hooks/pre-commit")).unwrap();
            fs::remove_file(bed.tree().join(".git/hooks/pre-push")).unwrap();
            fs::remove_file(bed.tree().join(".git/hooks/pre-commit.sample")).unwrap();
        },
        &[".git/hooks/pre-commit", ".git/hooks/pre-push"],
    ),
    (
        "a repository that is removed as a whole",
        nothing,
        |bed| fs::remove_dir_all(bed.tree().join("sub")).unwrap(),
        &[],
    ),
];

#[test]
fn paths_named_by_the_configuration_are_compared_and_restored() {
    for (name, before, task, expected) in OF_CONFIGURATIONS {
        let bed = Bed::new();
        before(&bed);
        assert_eq!(bed.tampered(task), expected, "{name}");
        for path in [".githooks/pre-commit", "tools/watch", "scripts/pre-commit", ".git/hooks/pre-commit"] {
            assert_ne!(bed.read(path).as_deref(), Some("evil"), "{name}: {path}");
        }
    }
}

/// A linked work tree in the tree, as the host's git creates it with relative paths.
fn linked(bed: &Bed) {
    bed.write("w/.git", "gitdir: ../.git/worktrees/w\n");
    for (name, text) in [("HEAD", "x"), ("commondir", "../..\n"), ("gitdir", "../../../w/.git\n")] {
        bed.write(&format!(".git/worktrees/w/{name}"), text);
    }
}

const OF_POINTERS: [Case; 18] = [
    (
        "a blank that git takes for a part of the name",
        |bed| bed.write(" ../evil/HEAD", "x"),
        |bed| bed.write("w/.git", "gitdir:  ../sub/.git\n"),
        &["w/.git"],
    ),
    ("no blank", nothing, |bed| bed.write("w/.git", "gitdir:../sub/.git\n"), &["w/.git"]),
    (
        "a folder with a blank at its end",
        nothing,
        |bed| {
            bed.write("sub/.git /HEAD", "x");
            bed.write(".git/commondir", "../sub/.git \n");
        },
        &[".git/commondir"],
    ),
    ("outside of the tree", nothing, |bed| bed.write("w/.git", "gitdir: /tmp\n"), &["w/.git"]),
    (
        "a linked work tree, as git makes it in a container",
        nothing,
        |bed| {
            bed.write("w/.git", "gitdir: /no-such-folder-of-the-host/.git/worktrees/w\n");
            bed.write(".git/worktrees/w/HEAD", "x");
            bed.write(".git/worktrees/w/commondir", "../..\n");
            bed.write(".git/worktrees/w/gitdir", "/no-such-folder-of-the-host/w/.git\n");
        },
        &[".git/worktrees/w/commondir", ".git/worktrees/w/gitdir", "w/.git"],
    ),
    (
        "the same with relative paths, in folders that were there",
        |bed| bed.write("deep/er/x", "x"),
        |bed| {
            bed.write("sub/deep/.git", "gitdir: ../../.git/worktrees/w\n");
            bed.write("deep/er/.git", "gitdir: ../../.git\n");
            bed.write("node_modules/x/.git", "gitdir: ../../.git\n");
            bed.write(".git/worktrees/w/gitdir", "../../../sub/deep/.git\n");
        },
        &[".git/worktrees/w/gitdir", "deep/er/.git", "node_modules/x/.git", "sub/deep/.git"],
    ),
    (
        "a folder that shares another's repository, and a link to one",
        nothing,
        |bed| {
            bed.write("w/.git/HEAD", "x");
            bed.write("w/.git/commondir", "../../.git\n");
            fs::create_dir(bed.tree().join("v")).unwrap();
            symlink("../.git", bed.tree().join("v/.git")).unwrap();
        },
        &["v/.git", "w/.git/commondir"],
    ),
    (
        "a linked work tree of the host that is moved",
        linked,
        |bed| {
            bed.rename("w", "moved");
            bed.write(".git/worktrees/w/gitdir", "../../../moved/.git\n");
        },
        &[".git/worktrees/w/gitdir", "moved/.git"],
    ),
    (
        "one whose pointer is another, or a repository of the task's own",
        |bed| {
            linked(bed);
            bed.write("v/.git", "gitdir: ../.git/worktrees/w\n");
        },
        |bed| {
            bed.write("w/.git", "gitdir: ../sub/.git\n");
            fs::remove_file(bed.tree().join("v/.git")).unwrap();
            bed.write("v/.git/HEAD", "x");
            bed.write("v/.git/config", "[remote \"origin\"]\n url = https://a.test/a\n");
        },
        &["v/.git", "w/.git"],
    ),
    ("one that is left alone", linked, |bed| bed.write("w/a", "x"), &[]),
    (
        "one that is said to be another repository's",
        |bed| {
            for name in ["HEAD", "objects/x", "refs/x"] {
                bed.write(&format!(".git/modules/m/{name}"), "x");
            }
        },
        |bed| {
            bed.write(".git/worktrees/w/HEAD", "x");
            bed.write(".git/worktrees/w/commondir", "../../modules/m\n");
        },
        &[".git/worktrees/w/commondir"],
    ),
    (
        "one that is said to be elsewhere",
        nothing,
        |bed| {
            bed.write(".git/worktrees/w/HEAD", "x");
            bed.write(".git/worktrees/w/commondir", "../..\n");
            bed.write(".git/worktrees/w/gitdir", "/tmp/w/.git\n");
        },
        &[".git/worktrees/w/commondir", ".git/worktrees/w/gitdir"],
    ),
    (
        "a submodule that knows its work tree",
        nothing,
        |bed| {
            bed.write(".git/modules/m/HEAD", "x");
            bed.write(".git/modules/m/objects/x", "x");
            bed.write(".git/modules/m/refs/x", "x");
            bed.write(".git/modules/m/config", "[core]\n worktree = ../../../m\n");
            bed.write("m/.git", "gitdir: ../.git/modules/m\n");
            bed.write(".gitmodules", "[submodule \"m\"]\n path = m\n url = https://a.test/m\n");
        },
        &["m/.git"],
    ),
    (
        "a submodule whose work tree is another's hooks",
        nothing,
        |bed| {
            bed.write(".git/modules/m/HEAD", "x");
            bed.write(".git/modules/m/objects/x", "x");
            bed.write(".git/modules/m/refs/x", "x");
            bed.write(".git/modules/m/config", "[core]\n worktree = ../../hooks\n");
        },
        &[".git/modules/m/config"],
    ),
    (
        "a bare repository that came with the tree",
        |bed| {
            bed.write("fixture/HEAD", "x");
            bed.write("fixture/objects/x", "x");
            bed.write("fixture/refs/x", "x");
            bed.write("fixture/config", "[core]\n fsmonitor = evil\n");
        },
        |bed| bed.write("w/.git", "gitdir: ../fixture\n"),
        &["w/.git"],
    ),
    (
        "git writes through links",
        nothing,
        |bed| {
            fs::create_dir_all(bed.tree().join(".git/logs/refs")).unwrap();
            symlink("/tmp/bashrc", bed.tree().join(".git/logs/HEAD")).unwrap();
            symlink("/tmp/bashrc", bed.tree().join(".git/COMMIT_EDITMSG")).unwrap();
            symlink("/tmp", bed.tree().join(".git/logs/refs/heads")).unwrap();
        },
        &[".git/COMMIT_EDITMSG", ".git/logs/HEAD", ".git/logs/refs/heads"],
    ),
    (
        "repositories where git keeps its own files",
        nothing,
        |bed| {
            bed.write(".git/logs/e/.git/config", "[core]\n fsmonitor = evil\n");
            bed.write(".git/refs/e/.git/hooks/pre-commit", "evil");
            bed.write(".git/modules/HEAD", "x");
            bed.write(".git/modules/refs/x", "x");
            bed.write(".git/modules/objects/e/.git/config", "[core]\n fsmonitor = evil\n");
            bed.write(".git/lfs/e/.git/config", "[core]\n fsmonitor = evil\n");
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
        |bed| {
            bed.write(".git/rebase-merge/git-rebase-todo", "pick 1\nexec evil\n");
            bed.write(".git/remotes/origin", "URL: ext::evil\n");
            bed.write(".gitmodules", "[submodule \"m\"]\n update = !evil\n");
        },
        &[".git/rebase-merge/git-rebase-todo", ".git/remotes/origin", ".gitmodules"],
    ),
];

#[test]
fn pointers_and_git_files_that_lead_elsewhere_are_moved_away() {
    for (name, before, task, expected) in OF_POINTERS {
        let bed = Bed::new();
        before(&bed);
        assert_eq!(bed.tampered(task), expected, "{name}");
    }
}

#[test]
fn guard_is_not_a_proof_if_there_is_another_way() {
    let bed = Bed::new();
    bed.write(".claude/settings.json", "{}");
    bed.write("tools/hook", "good");
    fs::hard_link(bed.tree().join("tools/hook"), bed.tree().join(".git/hooks/pre-commit")).unwrap();
    let (mounts, watch) = bed.begin(Protection::default());
    bed.write("tools/hook", "evil");
    assert!(mounts.iter().any(|mount| mount.container_path() == "/workspace/.git/hooks"));
    assert_eq!(bed.names(&watch.end(|| {})), [".git/hooks/pre-commit"]);
    assert_eq!(bed.read(".git/hooks/pre-commit").as_deref(), Some("good"));

    // The same tree and its surroundings, under other names.
    let others = [
        Mount::read_write(bed.tree(), "/src"),
        Mount::read_write(bed.folder.path(), "/around"),
        Mount::read_write(bed.tree().join(".claude"), "/settings"),
    ];
    let mounts = [Mount::read_write(bed.tree(), "/workspace").protected(Protection::default())];
    let mounts: Vec<Mount> = mounts.into_iter().chain(others).collect();
    let quarantine = bed.folder.path().join("quarantine");
    let (mounts, watch) = Watch::begin(mounts, quarantine, &mut Views::new(None)).unwrap();
    for place in ["/workspace/.claude", "/src/.claude", "/around/tree/.claude", "/src/.git/hooks"] {
        let guards = mounts.iter().filter(|mount| mount.read_only() && mount.container_path() == place);
        assert_eq!(guards.count(), 1, "{place}");
    }
    bed.write(".claude/settings.json", "evil");
    assert_eq!(bed.names(&watch.end(|| {})), [".claude/settings.json"]);
    assert_eq!(bed.read(".claude/settings.json").as_deref(), Some("{}"));
}

#[test]
fn guards_are_spent_on_rules_first() {
    let bed = Bed::new();
    for number in 0..150 {
        bed.write(&format!(".git/modules/{number}/config"), "[user]\n name = a\n");
        bed.write(&format!(".git/modules/{number}/HEAD"), "x");
        bed.write(&format!(".git/modules/{number}/objects/x"), "x");
        bed.write(&format!(".git/modules/{number}/refs/x"), "x");
    }
    bed.write(".sandbox/sandbox.yaml", "x");
    bed.write("zz/deploy.sh", "x");
    let (mounts, _watch) = bed.begin(Protection::default().with(["zz/deploy.sh"]));
    for place in ["/workspace/.sandbox", "/workspace/zz/deploy.sh"] {
        assert!(mounts.iter().any(|mount| mount.container_path() == place), "{place}");
    }
    assert!(mounts.len() < 110, "{}", mounts.len());
}

#[test]
fn entries_created_in_the_git_folder_take_no_guard_from_its_configuration() {
    let bed = Bed::new();
    for number in 0..150 {
        bed.write(&format!(".git/a{number}/config"), "[user]\n name = a\n");
        bed.write(&format!(".git/a{number}/HEAD"), "x");
        bed.write(&format!(".git/a{number}/objects/x"), "x");
        bed.write(&format!(".git/a{number}/refs/x"), "x");
    }
    let (mounts, _watch) = bed.begin(Protection::default());
    // Without views, the folder is read-only as a whole.
    assert!(mounts.iter().any(|mount| mount.container_path() == "/workspace/.git" && mount.read_only()));
}
