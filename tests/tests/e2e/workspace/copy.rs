//! A task that works on a copy.

use std::fs;

use e2e_tests::fixture::{Fixture, read_until};
use sandbox::workspace::{ApplyOptions, Protection, WorkspaceCopy, WorkspaceError};
use sandbox::{Input, Mount, SandboxError};

use super::tree::Tree;

/// Every kind of change that an overlay represents in a special way.
const WORK: &str = "set -e; echo two >> src/a; echo new > b; mkdir -p deep/er; echo x > deep/er/f; ln -s ../b src/link; \
                    printf '#!/bin/sh\\n' > tool; chmod 755 tool; rm keep/gone; mv moved renamed; rm -rf replaced; mkdir replaced; \
                    echo x > replaced/inner; rm file; mkdir file; echo x > file/now-a-folder; git add src/a; git commit -q -m second";

fn worked_on() -> Tree {
    let tree = Tree::new();
    let script = "mkdir -p keep moved/a replaced && echo g > keep/gone && echo m > moved/a/m && echo r > replaced/old && echo f > file";
    assert!(tree.host(script).0);
    tree
}

fn changes(tree: &Tree) -> Vec<String> {
    let copy = WorkspaceCopy::open(tree.copy_dir()).expect("a copy").expect("a copy");
    let changes = copy.changes(&Protection::default()).expect("changes");
    changes
        .iter()
        .filter(|change| !change.path.starts_with(".git"))
        .map(|change| format!("{} {}", change.kind.letter(), change.path.display()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn host_sees_nothing_of_a_copy_before_and_everything_after_the_apply() {
    let fixture = Fixture::new().await;
    let (tree, control) = (worked_on(), worked_on());
    let list = "find . -path ./.git -prune -o -printf '%P %y %l %m\\n' | sort; find . -path ./.git -prune -o -type f -exec md5sum {} + | sort";
    let before = tree.host(list);
    let ran = tree.run(&fixture, tree.copied(), WORK).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(tree.host(list), before);
    assert_eq!(tree.host("git log --format=%s").1, "first\n");

    let expected = [
        "A b",
        "A deep",
        "A deep/er",
        "A deep/er/f",
        "M file",
        "A file/now-a-folder",
        "D keep/gone",
        "D moved",
        "A renamed",
        "A renamed/a",
        "A renamed/a/m",
        "A replaced/inner",
        "D replaced/old",
        "M src/a",
        "A src/link",
        "A tool",
    ];
    assert_eq!(changes(&tree), expected);

    // The control: the result of the same task on a plain mount.
    let ran = control.run(&fixture, control.plain(), WORK).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_ne!(control.host(list), before);

    let copy = WorkspaceCopy::open(tree.copy_dir()).expect("a copy").expect("a copy");
    let applied = copy.apply(&ApplyOptions::default()).expect("applied");
    assert!(applied.withheld.is_empty(), "{applied:?}");
    assert_eq!(tree.host(list).1, control.host(list).1, "the result equals work on the tree itself");
    assert_eq!(
        tree.host("git log --format=%s && git fsck --strict && git status --porcelain --untracked-files=no")
            .1,
        "second\nfirst\n"
    );
    assert!(WorkspaceCopy::open(tree.copy_dir()).expect("no copy").is_none());
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_task_continues_with_the_copy_and_a_concurrent_third_is_refused() {
    let fixture = Fixture::new().await;
    let tree = Tree::new();
    tree.run(&fixture, tree.copied(), "echo 1 > first; rm src/a").await;
    let ran = tree.run(&fixture, tree.copied(), "cat first; ls src; echo 2 > second").await;
    assert_eq!(ran.stdout, "1\n", "{}", ran.stderr);
    assert_eq!(changes(&tree), ["A first", "A second", "D src/a"]);

    let running = fixture
        .sandbox
        .create_command(tree.spec(&fixture, tree.copied(), "echo ready; read line"))
        .expect("a good command");
    let other =
        fixture.sandbox.create_command(tree.spec(&fixture, tree.copied(), "true")).expect("a good command");
    let (writer, reader) = tokio::io::duplex(64);
    let mut running = running.execute(Input::Reader(Box::new(reader)));
    read_until(&mut running, |output| output.contains("ready")).await;
    let refused = other.execute(Input::Empty).await;
    assert!(matches!(refused, Err(SandboxError::Workspace(WorkspaceError::Busy { .. }))), "{refused:?}");
    let copy = WorkspaceCopy::open(tree.copy_dir()).expect("a copy").expect("a copy");
    assert!(matches!(copy.discard(), Err(WorkspaceError::Busy { .. })));
    drop(writer);
    running.await.expect("the sandbox works");
    WorkspaceCopy::open(tree.copy_dir()).expect("a copy").expect("a copy").discard().expect("discarded");
    assert_eq!(tree.read("src/a"), "one\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_paths_in_a_copy_are_withheld_and_links_stay_inside() {
    let fixture = Fixture::new().await;
    let tree = Tree::new();
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("file"), "of the host").expect("a file");
    // The host's link leads out of the tree. In the task it leads into the container, where writes
    // are lost.
    std::os::unix::fs::symlink(outside.path(), tree.path().join("out")).expect("a link");
    let script = "cp /bin/true .git/hooks/post-commit; git config core.fsmonitor /evil; echo evil > .envrc; ln -s /etc/passwd passwd; \
                  mkdir -p \"$(readlink out)\"; echo evil > out/file; rm out; mkdir out; echo evil > out/file; mkfifo pipe; \
                  cp /bin/true setuid; chmod 6755 setuid; mknod null c 1 3; mknod hidden c 0 0; echo fine > fine";
    let ran = tree.run(&fixture, tree.copied(), script).await;
    assert!(ran.stderr.contains("mknod"), "{}", ran.stderr);
    let copy = WorkspaceCopy::open(tree.copy_dir()).expect("a copy").expect("a copy");
    let applied = copy.apply(&ApplyOptions::default()).expect("applied");
    let held: Vec<&str> = applied.withheld.iter().filter_map(|change| change.path.to_str()).collect();
    assert_eq!(held, [".envrc", "passwd", "pipe"]);
    let report = &applied.git.repositories[0].report;
    assert!(report.left.iter().any(|left| left.path == "hooks/post-commit"), "{report:?}");
    assert!(report.settings.iter().any(|setting| setting.key == "core.fsmonitor"), "{report:?}");
    assert_eq!((tree.read("fine"), tree.read("out/file")), ("fine\n".to_owned(), "evil\n".to_owned()));
    assert_eq!(fs::read_to_string(outside.path().join("file")).expect("a file"), "of the host");
    assert_eq!(
        tree.host("stat -c %a setuid; ls -d .envrc passwd pipe .git/hooks/post-commit 2>/dev/null; git config core.fsmonitor").1,
        "755\n"
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_inside_its_own_tree_is_refused() {
    let fixture = Fixture::new().await;
    let tree = Tree::new();
    let mount = Mount::copy_on_write(tree.path(), "/workspace", tree.path().join("copy"));
    let refused =
        fixture.sandbox.create_command(tree.spec(&fixture, mount, "true")).expect_err("in the tree itself");
    assert!(refused.to_string().contains("neither may contain the other"), "{refused}");
    fixture.close().await;
}
