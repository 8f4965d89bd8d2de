//! Attacks on files outside `.git` that the host's git follows: through its configuration, links
//! and pointer files. Each is also tried without protection, where it must succeed on the host.

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use sandbox::Mount;
use sandbox::workspace::Protection;

use super::attack::{self, Attack, EVIL};
use super::tree::Tree;

const COMMIT: &str = "git commit -q --allow-empty -m x";

const ATTACKS: [Attack; 15] = [
    Attack {
        name: "hooks in the tree",
        init: "",
        before: "mkdir .githooks && git config core.hooksPath .githooks",
        task: "cp evil.sh .githooks/pre-commit",
        host: COMMIT,
        planted: &[],
    },
    Attack {
        name: "hooks in a folder that is not there yet",
        init: "",
        before: "git config core.hooksPath tools/hooks",
        task: "mkdir -p tools/hooks; cp evil.sh tools/hooks/pre-commit",
        host: COMMIT,
        planted: &["tools/hooks/pre-commit"],
    },
    Attack {
        name: "a configuration that is included",
        init: "",
        before: "git config include.path ../.gitconfig && git config -f .gitconfig user.name x",
        task: "git config -f .gitconfig core.fsmonitor $HOST/evil.sh",
        host: "git status",
        planted: &[],
    },
    Attack {
        name: "the same, where there is none yet",
        init: "",
        before: "git config includeIf.gitdir:/.path ../extra",
        task: "git config -f extra core.fsmonitor $HOST/evil.sh",
        host: "git status",
        planted: &["extra"],
    },
    Attack {
        name: "a program of the configuration",
        init: "",
        before: "mkdir tools && printf '#!/bin/sh\\n' > tools/watch && chmod +x tools/watch && git config core.fsmonitor tools/watch",
        task: "cat evil.sh > tools/watch",
        host: "git status",
        planted: &[],
    },
    Attack {
        name: "what a hook is a link to",
        init: "",
        before: "mkdir scripts && printf '#!/bin/sh\\n' > scripts/check && chmod +x scripts/check && ln -s ../../scripts/check .git/hooks/pre-commit",
        task: "cat evil.sh > scripts/check",
        host: COMMIT,
        planted: &[],
    },
    Attack {
        name: "the folder around what a hook is a link to",
        init: "",
        before: "mkdir scripts && printf '#!/bin/sh\\n' > scripts/check && chmod +x scripts/check && ln -s ../../scripts/check .git/hooks/pre-commit",
        task: "mv scripts former; mkdir scripts; cp evil.sh scripts/check",
        host: COMMIT,
        planted: &["scripts/check"],
    },
    Attack {
        name: "another name of a hook",
        init: "",
        before: "mkdir tools && printf '#!/bin/sh\\n' > tools/hook && chmod +x tools/hook && ln tools/hook .git/hooks/pre-commit",
        task: "cat evil.sh > tools/hook",
        host: COMMIT,
        planted: &[".git/hooks/pre-commit"],
    },
    Attack {
        name: "a second work tree with hooks of its own",
        init: "",
        before: "git config core.hooksPath .githooks",
        task: "mkdir -p w/.githooks; echo 'gitdir: ../.git' > w/.git; cp evil.sh w/.githooks/pre-commit",
        host: "cd w && git commit -q --allow-empty -m x",
        planted: &["w/.git", "w/.githooks/pre-commit"],
    },
    Attack {
        name: "commondir with a blank that is a part of the name",
        init: "",
        before: "true",
        task: "mkdir e 'e '; cp -r .git/objects .git/refs 'e '; git config -f 'e /config' core.fsmonitor $HOST/evil.sh; \
               printf '../e \\n' > .git/commondir",
        host: "git status",
        planted: &[],
    },
    Attack {
        name: "a pointer with a second blank",
        init: "",
        before: "true",
        task: "mkdir -p 'w/ ..'; cp -r .git 'w/ ../e'; rm -r 'w/ ../e/hooks'; git config -f 'w/ ../e/config' core.fsmonitor $HOST/evil.sh; \
               echo 'gitdir:  ../e' > w/.git",
        host: "cd w && git status",
        planted: &["w/ ../e/config", "w/.git"],
    },
    Attack {
        name: "a repository among git's logs",
        init: "",
        before: "true",
        task: "git init -q n; git config -f n/.git/config core.fsmonitor $HOST/evil.sh; mkdir -p .git/logs; mv n .git/logs/n; ln -s .git/logs/n n",
        host: "cd n && git status",
        planted: &[],
    },
    Attack {
        name: "a reflog that is a link",
        init: "",
        before: "true",
        task: "rm -rf .git/logs; mkdir .git/logs; ln -s $MARKER .git/logs/HEAD; ls nothing",
        host: COMMIT,
        planted: &[],
    },
    Attack {
        name: "a message file that is a link",
        init: "",
        before: "true",
        task: "ln -sf $MARKER .git/COMMIT_EDITMSG",
        host: COMMIT,
        planted: &[],
    },
    Attack {
        name: "a vendored repository",
        init: "",
        before: "git init -q vendor/x",
        task: "cp evil.sh vendor/x/.git/hooks/pre-commit",
        host: "cd vendor/x && git commit -q --allow-empty -m x",
        planted: &[],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn attacks_on_what_git_follows_are_refused_or_undone() {
    attack::assert_all_fail(&ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_protection_git_runs_or_writes_everything() {
    attack::assert_all_succeed(&ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_mount_of_the_tree_is_guarded_too() {
    let fixture = Fixture::new().await;
    let script = format!(
        "{EVIL}cd /src; cp evil.sh .git/hooks/pre-commit; git config core.fsmonitor $HOST/evil.sh; echo evil > .envrc"
    );
    for (protection, is_safe) in [(Protection::default(), true), (Protection::none(), false)] {
        let tree = Tree::new();
        tree.host("echo good > .envrc");
        let mount = tree.plain().protected(protection);
        let spec = tree.spec(&fixture, mount, &script).mount(Mount::read_write(tree.path(), "/src"));
        let ran = fixture.run_spec(spec).await;
        tree.host(COMMIT);
        let is_untouched = !tree.marker().exists() && tree.read(".envrc") == "good\n";
        assert_held!(is_untouched || !is_safe, "{}", ran.stderr);
        assert_eq!(is_untouched, is_safe, "{}", ran.stderr);
        assert_eq!(!tree.marker().exists(), is_safe, "{}", ran.stderr);
        let refused = ran.stderr.matches("Read-only file system").count()
            + ran.stderr.matches("Device or resource busy").count();
        assert_eq!(refused >= 2, is_safe, "{}", ran.stderr);
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_protected_path_is_restored() {
    let fixture = Fixture::new().await;
    for (protection, is_back) in [(Protection::default(), true), (Protection::none(), false)] {
        let tree = Tree::new();
        tree.host("mkdir -p a/.sandbox b && echo rules > a/.sandbox/sandbox.yaml && echo env > b/.envrc && git init -q c");
        let mount = tree.plain().protected(protection);
        let ran = tree
            .run(&fixture, mount, "mv a x; mkdir a; cp -r x/. a; rm -rf a/.sandbox b/.envrc c; mkdir c")
            .await;
        for (path, text) in [("b/.envrc", "env\n"), ("a/.sandbox/sandbox.yaml", "rules\n")] {
            let is_there = tree.read(path) == text;
            assert_held!(is_there || !is_back, "{path}: {:?}", ran.result.tampered);
            assert_eq!(is_there, is_back, "{path}: {:?}", ran.result.tampered);
        }
        assert_eq!(ran.result.tampered.iter().any(|thing| thing.restored), is_back);
    }
    fixture.close().await;
}
