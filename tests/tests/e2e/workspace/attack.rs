//! Files that a task writes so that a program of the host executes them, with and without
//! protection.

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use sandbox::workspace::Protection;

use super::tree::{Tree, planted};

/// A way to make the host execute or write something.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// Options of `git init` for the work tree.
    pub(super) init: &'static str,
    /// The setup by the project's owner.
    pub(super) before: &'static str,
    /// The script of the task.
    pub(super) task: &'static str,
    /// The later actions of the user on the host.
    pub(super) host: &'static str,
    /// The reported paths; none if the task could not write at all, or wrote to its view of a
    /// repository.
    pub(super) planted: &'static [&'static str],
}

/// Leaves a script in the tree that is harmless by itself.
pub(super) const EVIL: &str = "printf '#!/bin/sh\\ntouch %s\\n' \"$MARKER\" > evil.sh; chmod +x evil.sh; ";

impl Attack {
    /// The work tree, before the task.
    fn tree(&self) -> Tree {
        let tree = Tree::with_template(self.init);
        let (done, said) = tree.host(self.before);
        assert!(done, "{}: {said}", self.name);
        tree
    }
}

/// On a protected mount each attack is refused, or undone and reported, or confined to a view, and
/// never executed.
pub(super) async fn assert_all_fail(attacks: &[Attack]) {
    let fixture = Fixture::new().await;
    let mut different: Vec<String> = Vec::new();
    for attack in attacks {
        let tree = attack.tree();
        let mount = tree.plain().protected(Protection::default());
        let ran = tree.run(&fixture, mount, &format!("{EVIL}{}", attack.task)).await;
        let said = tree.host(attack.host);
        assert_held!(!tree.marker().exists(), "{}: the host ran it: {said:?}", attack.name);
        let found = planted(&ran, &tree.path());
        if found != attack.planted {
            different.push(format!("{}: {found:?}: {}", attack.name, ran.stderr));
        }
        for thing in &ran.result.tampered {
            let is_there = thing.moved_to.as_ref().is_none_or(|to| to.symlink_metadata().is_ok());
            assert!(is_there, "{}: {thing:?}", attack.name);
        }
        let script = tree.path().join("evil.sh");
        assert!(script.exists(), "the task did work: {}", ran.stderr);
    }
    assert!(different.is_empty(), "{different:#?}");
    fixture.close().await;
}

/// The control: on a mount without protection each of them succeeds.
pub(super) async fn assert_all_succeed(attacks: &[Attack]) {
    let fixture = Fixture::new().await;
    for attack in attacks {
        let tree = attack.tree();
        let ran = tree.run(&fixture, tree.plain(), &format!("{EVIL}{}", attack.task)).await;
        assert!(ran.result.tampered.is_empty());
        let said = tree.host(attack.host);
        assert!(tree.marker().exists(), "{}: {said:?} {}", attack.name, ran.stderr);
    }
    fixture.close().await;
}
