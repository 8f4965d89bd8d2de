//! Attacks on the host through a writable mount. Each is also tried on a mount without protection,
//! where the host must execute the planted file.

use e2e_tests::assert_held;
use e2e_tests::fixture::{Fixture, read_until};
use sandbox::Input;
use sandbox::diagnostics::{InventoryObject, Role};
use sandbox::workspace::Protection;

use super::attack::{self, Attack};
use super::tree::{Tree, planted};

const ATTACKS: [Attack; 15] = [
    Attack {
        name: "a hook",
        init: "",
        before: "true",
        task: "cp evil.sh .git/hooks/post-commit",
        host: "git commit -q --allow-empty -m x",
        planted: &[],
    },
    Attack {
        name: "a hook where there are none",
        init: "--template=",
        before: "true",
        task: "mkdir -p .git/hooks; cp evil.sh .git/hooks/post-commit",
        host: "git commit -q --allow-empty -m x",
        planted: &[],
    },
    Attack {
        name: "fsmonitor",
        init: "",
        before: "true",
        task: "git config core.fsmonitor $HOST/evil.sh",
        host: "git status",
        planted: &[],
    },
    Attack {
        name: "fsmonitor in another file's place",
        init: "",
        before: "true",
        task: "cp .git/config c; git config -f c core.fsmonitor $HOST/evil.sh; mv -f c .git/config",
        host: "git status",
        planted: &[],
    },
    Attack {
        name: "sshCommand",
        init: "",
        before: "true",
        task: "git config core.sshCommand $HOST/evil.sh",
        host: "git fetch ssh://nowhere.test/x",
        planted: &[],
    },
    Attack {
        name: "hooksPath",
        init: "",
        before: "true",
        task: "mkdir h; cp evil.sh h/post-commit; git config core.hooksPath $HOST/h",
        host: "git commit -q --allow-empty -m x",
        planted: &[],
    },
    Attack {
        name: "another repository in its place",
        init: "",
        before: "true",
        task: "mv .git .git2; cp -r .git2 .git; cp evil.sh .git/hooks/post-commit",
        host: "git commit -q --allow-empty -m x",
        planted: &[],
    },
    Attack {
        name: "commondir",
        init: "",
        before: "true",
        task: "mkdir e; cp -r .git/objects .git/refs e; git config -f e/config core.fsmonitor $HOST/evil.sh; echo ../e > .git/commondir",
        host: "git status",
        planted: &[],
    },
    Attack {
        name: "a bare repository in a folder",
        init: "",
        before: "true",
        task: "cp -r .git e; rm -rf e/hooks; git config -f e/config core.bare false; git config -f e/config core.worktree $HOST; \
               git config -f e/config core.fsmonitor $HOST/evil.sh",
        host: "cd e && git status",
        planted: &["e/config"],
    },
    Attack {
        name: "a repository among the objects of another",
        init: "",
        before: "true",
        task: "cp -r .git .e; mv .e .git/objects/e; git config -f .git/objects/e/config core.fsmonitor $HOST/evil.sh; mkdir d; \
               echo 'gitdir: ../.git/objects/e' > d/.git",
        host: "cd d && git status",
        planted: &["d/.git"],
    },
    Attack {
        name: "a new repository's hook",
        init: "",
        before: "true",
        task: "git init -q new; cp evil.sh new/.git/hooks/post-commit",
        host: "cd new && git commit -q --allow-empty -m x",
        planted: &["new/.git/hooks/post-commit"],
    },
    Attack {
        name: "hooks of repositories with odd names",
        init: "",
        before: "for name in 'a,b' 'c:d' 'e\"f' 'g\\h' \"$(printf 'i\\nj')\"; do git init -q \"$name\"; done",
        task: "for name in *[!a-z.]*/; do cp evil.sh \"$name.git/hooks/post-commit\"; done",
        host: "for name in *[!a-z.]*/; do (cd \"$name\" && git commit -q --allow-empty -m x); done",
        planted: &[],
    },
    Attack {
        name: "an environment",
        init: "",
        before: "true",
        task: "cp evil.sh .envrc",
        host: ". ./.envrc",
        planted: &[".envrc"],
    },
    Attack {
        name: "objects of another repository",
        init: "",
        before: "true",
        task: "git init -q n; echo /srv/secret/.git/objects > n/.git/objects/info/alternates",
        host: "cat n/.git/objects/info/alternates && ./evil.sh",
        planted: &["n/.git/objects/info/alternates"],
    },
    Attack {
        name: "an agent's settings",
        init: "",
        before: "true",
        task: "mkdir -p src/.claude; echo '{\"hooks\":{}}' > src/.claude/settings.json",
        host: "cat src/.claude/settings.json && ./evil.sh",
        planted: &["src/.claude/settings.json"],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn planted_files_are_refused_or_undone_and_never_run() {
    attack::assert_all_fail(&ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_protection_the_host_runs_everything() {
    attack::assert_all_succeed(&ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn git_works_in_a_protected_tree_except_for_its_configuration() {
    let fixture = Fixture::new().await;
    let tree = Tree::new();
    let script = "set -e; echo two >> src/a; git commit -q -am second; git checkout -q -b topic; git mv src/a src/b; git commit -q -m third; \
                  git checkout -q main; git merge -q topic; git gc -q; git stash list; git tag v1; git status --porcelain; rm -rf src";
    let protected = || tree.plain().protected(Protection::default());
    let ran = tree.run(&fixture, protected(), script).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert!(ran.result.tampered.is_empty(), "{:?}", ran.result.tampered);
    assert_eq!(tree.host("git log --format=%s && git fsck --strict").1, "third\nsecond\nfirst\n");

    let before = tree.read(".git/config");
    let script = "git config user.name x; rm -f .git/config; rm -rf .git/hooks; mv .git x";
    let ran = tree.run(&fixture, protected(), script).await;
    assert!(ran.stderr.contains("Device or resource busy"), "{}", ran.stderr);
    assert!(!ran.result.git.is_empty(), "{:?}", ran.result.git);
    assert_held!(tree.read(".git/config") == before, "{}", tree.read(".git/config"));
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_list_is_protected_and_plain_new_repositories_are_kept() {
    let fixture = Fixture::new().await;
    let tree = Tree::new();
    tree.host("mkdir ci && echo good > ci/deploy.sh");
    let mount = tree.plain().protected(Protection::default().with(["ci/deploy.sh", "Makefile.local"]));
    let script = "echo evil > ci/deploy.sh; mv ci other; mkdir -p ci; echo evil > ci/deploy.sh; echo evil > src/Makefile.local; \
                  git init -q new; git -C new remote add origin https://open.test/x.git; git clone -q . cloned";
    let ran = tree.run(&fixture, mount, script).await;
    assert_held!(tree.read("other/deploy.sh") == "good\n", "{}", ran.stderr);
    assert!(ran.stderr.contains("Read-only file system"), "{}", ran.stderr);
    // The parent folder of a listed path can be renamed; the path then belongs to the task.
    assert_eq!(planted(&ran, &tree.path()), ["ci/deploy.sh", "src/Makefile.local"]);
    assert!(tree.path().join("cloned/.git/config").exists() && tree.path().join("new/.git/HEAD").exists());
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tampered_files_of_a_dropped_execution_are_moved_away_with_its_container() {
    let fixture = Fixture::new().await;
    let tree = Tree::new();
    for (mount, is_protected) in
        [(tree.plain(), false), (tree.plain().protected(Protection::default()), true)]
    {
        let spec = tree.spec(&fixture, mount, "echo evil > .envrc; echo ready; sleep 600");
        let command = fixture.sandbox.create_command(spec).expect("a good command");
        let mut execution = command.execute(Input::Empty);
        read_until(&mut execution, |output| output.contains("ready")).await;
        drop(execution);
        command.stop().await;
        let planted = tree.path().join(".envrc");
        assert_held!(!is_protected || !planted.exists(), "it is still there");
        assert!(is_protected || planted.exists(), "the control is not protected");
        if is_protected {
            let inventory = fixture.sandbox.inventory().await.expect("the engine answers");
            let ours =
                inventory.instances.iter().find(|instance| instance.id == fixture.sandbox.instance_id());
            let is_task = |object: &InventoryObject| object.role == Role::Task;
            assert!(!ours.is_some_and(|instance| instance.objects.iter().any(is_task)), "{inventory:?}");
        } else {
            std::fs::remove_file(planted).expect("the control's file");
        }
    }
    fixture.close().await;
}
