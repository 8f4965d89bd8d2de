//! A person's next commands in a repository after an import.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::fixture::{Fixture, files, run, script};

/// Commands of a person, in order. Each may fail.
const COMMANDS: [&str; 34] = [
    "git status",
    "git diff",
    "git diff --cached --stat",
    "git log -p -2 --show-signature",
    "git show HEAD",
    "git blame a",
    "git grep -n two",
    "git ls-files -s",
    "git describe --always --dirty",
    "git branch -avv",
    "git worktree list",
    "git submodule status",
    "git submodule update --init",
    "git remote -v",
    "git fetch --all",
    "git stash",
    "git stash pop",
    "git stash list -p",
    "echo $$ >> a; git add -A",
    "git commit -m next",
    "git commit --amend -m again",
    "git switch -c another",
    "git switch -",
    "git checkout HEAD -- a",
    "git merge another -m merged",
    "git cherry-pick HEAD~1",
    "git rebase HEAD~1",
    "git revert --no-edit HEAD",
    "git reset --hard",
    "git tag -a -m tag next",
    "git pull",
    "git push -u origin HEAD",
    "git archive HEAD",
    "git gc; git maintenance run; git fsck --strict; git reflog",
];

/// Settings and files in a `.git` folder that make git execute `CANARY`, or write to `OUTSIDE`.
const HOSTILE: [(&str, &str); 30] = [
    ("config", "[core]\n\tfsmonitor = CANARY\n"),
    ("config", "[core]\n\thooksPath = OUTSIDE/../hooks\n"),
    ("config", "[core]\n\tsshCommand = CANARY\n\taskPass = CANARY\n\tgitProxy = CANARY\n"),
    ("config", "[core]\n\tpager = CANARY\n\teditor = CANARY\n\talternateRefsCommand = CANARY\n"),
    ("config", "[core]\n\tworktree = OUTSIDE\n"),
    ("config", "[core]\n\tattributesFile = OUTSIDE/../attributes\n"),
    ("config", "[include]\n\tpath = OUTSIDE/../included\n"),
    ("config", "[includeIf \"onbranch:*\"]\n\tpath = OUTSIDE/../included\n"),
    ("config", "[extensions]\n\tworktreeConfig = true\n"),
    ("config.worktree", "[core]\n\tfsmonitor = CANARY\n"),
    ("config", "[filter \"x\"]\n\tclean = CANARY\n\tsmudge = CANARY\n"),
    ("config", "[filter \"x\"]\n\tprocess = CANARY\n\trequired = true\n"),
    ("config", "[diff]\n\texternal = CANARY\n[diff \"x\"]\n\ttextconv = CANARY\n\tcommand = CANARY\n"),
    ("config", "[merge \"x\"]\n\tdriver = CANARY %A\n"),
    ("config", "[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[gpg]\n\tprogram = CANARY\n"),
    ("config", "[credential]\n\thelper = !CANARY\n"),
    ("config", "[alias]\n\tst = !CANARY\n"),
    ("config", "[sequence]\n\teditor = CANARY\n[rebase]\n\tautoSquash = true\n"),
    ("config", "[remote \"origin\"]\n\tuploadpack = CANARY\n\treceivepack = CANARY\n"),
    ("config", "[remote \"origin\"]\n\turl = ext::CANARY\n[protocol]\n\tallow = always\n"),
    (
        "config",
        "[remote \"extra\"]\n\turl = ext::CANARY\n\tfetch = +refs/*:refs/*\n[protocol]\n\tallow = always\n",
    ),
    (
        "config",
        "[branch \"main\"]\n\tremote = ext::CANARY\n\tmerge = refs/heads/main\n[protocol]\n\tallow = always\n",
    ),
    ("config", "[submodule \"x\"]\n\tactive = true\n\turl = ext::CANARY\n\tupdate = !CANARY\n"),
    ("config", "[trailer \"x\"]\n\tcmd = CANARY\n[interactive]\n\tdiffFilter = CANARY\n"),
    ("info/attributes", "* filter=x diff=x merge=x\n"),
    ("objects/info/alternates", "OUTSIDE\n"),
    ("commondir", "OUTSIDE\n"),
    ("worktrees/x/gitdir", "OUTSIDE/.git\n"),
    ("worktrees/x/commondir", "../..\n"),
    ("refs/heads/outward", "ref: ../../../outside/victim\n"),
];

const HOOKS: [&str; 14] = [
    "applypatch-msg",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "reference-transaction",
    "commit-msg",
];

/// Links in a `.git` folder that lead to `OUTSIDE`.
const LINKS: [&str; 5] = ["logs", "refs/tags", "objects/pack", "COMMIT_EDITMSG", "FETCH_HEAD"];

#[derive(Debug, Clone)]
enum Act {
    Append(usize),
    Hook(usize),
    Link(usize),
    Commit,
}

/// The folders of a task's program and of an innocent bystander.
struct Place<'a>(&'a Fixture);

impl Place<'_> {
    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.host().with_file_name(name)
    }

    fn new(fixture: &Fixture) -> Place<'_> {
        let place = Place(fixture);
        let ran = place.at("ran");
        let program = format!("#!/bin/sh\necho \"$0 $*\" >> {}\nexit 1\n", ran.display());
        fs::create_dir(place.at("outside")).unwrap();
        fs::write(place.at("outside/victim"), "as it was").unwrap();
        fs::write(place.at("attributes"), "* filter=x diff=x\n").unwrap();
        fs::create_dir(place.at("hooks")).unwrap();
        for name in HOOKS.iter().map(|name| format!("hooks/{name}")).chain(["canary".to_owned()]) {
            fs::write(place.at(&name), &program).unwrap();
            fs::set_permissions(place.at(&name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let included = place.text("[core]\n\tfsmonitor = CANARY\n");
        fs::write(place.at("included"), included).unwrap();
        place
    }

    fn text(&self, text: &str) -> String {
        let of = |name: &str| self.at(name).display().to_string();
        text.replace("CANARY", &of("canary")).replace("OUTSIDE", &of("outside"))
    }

    /// Performs `act` in the folder of a repository.
    fn act(&self, act: &Act, git: &Path) {
        match act {
            Act::Append(which) => {
                let (name, text) = HOSTILE[*which];
                let _ = fs::create_dir_all(git.join(name).parent().unwrap());
                let old = fs::read_to_string(git.join(name)).unwrap_or_default();
                let _ = fs::write(git.join(name), old + &self.text(text));
            }
            Act::Hook(which) => {
                fs::create_dir_all(git.join("hooks")).unwrap();
                let _ = symlink(self.at("canary"), git.join("hooks").join(HOOKS[*which]));
            }
            Act::Link(which) => {
                let path = git.join(LINKS[*which]);
                let _ = fs::remove_dir_all(&path);
                let _ = fs::remove_file(&path);
                let target = if which < &3 { "outside" } else { "outside/victim" };
                let _ = symlink(self.at(target), path);
            }
            Act::Commit => script(
                git.parent().unwrap(),
                "-echo $$ >> a; git commit -qam x; git branch x$$; git stash -q; git tag t$$",
            ),
        }
    }

    /// Whether a person's commands on the host execute the task's program, or write to the folder
    /// outside.
    fn is_breached(&self) -> Option<String> {
        let outside = files(&self.at("outside"));
        let _ = fs::remove_file(self.at("ran"));
        for command in COMMANDS {
            script(&self.0.host(), &format!("-{command}"));
        }
        let ran = fs::read_to_string(self.at("ran")).unwrap_or_default();
        let now = files(&self.at("outside"));
        (now != outside || !ran.is_empty()).then(|| format!("{ran}; outside: {:?}", now.keys()))
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..HOSTILE.len()).prop_map(Act::Append),
        2 => (0..HOOKS.len()).prop_map(Act::Hook),
        1 => (0..LINKS.len()).prop_map(Act::Link),
        2 => Just(Act::Commit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn everyday_commands_after_an_import_run_nothing_and_write_nothing_of_the_task(
        acts in prop::collection::vec(act(), 1..20),
        is_upper: bool,
    ) {
        let mut fixture = Fixture::new();
        fixture.is_upper = is_upper;
        let place = Place::new(&fixture);
        for act in &acts {
            place.act(act, &fixture.task().join(".git"));
        }
        fixture.import_with(&mut |_| true).unwrap();
        prop_assert_eq!(place.is_breached(), None);
    }
}

#[test]
fn everyday_commands_in_a_shared_repository_run_the_tasks_program() {
    // The control: each attack alone, in a repository shared with the task.
    let appended = |text: &str| HOSTILE.iter().position(|(_, it)| it.contains(text)).map(Act::Append);
    let hook = |name: &str| HOOKS.iter().position(|it| *it == name).map(Act::Hook);
    let link = |name: &str| LINKS.iter().position(|it| *it == name).map(Act::Link);
    let acts = [
        appended("fsmonitor"),
        appended("hooksPath"),
        appended("includeIf"),
        appended("clean"),
        appended("gpgSign"),
        appended("receivepack"),
        hook("post-commit"),
        hook("pre-push"),
        link("logs"),
        link("COMMIT_EDITMSG"),
    ];
    for act in acts.into_iter().flatten() {
        let fixture = Fixture::new();
        let place = Place::new(&fixture);
        let git = fixture.task().join(".git");
        fs::write(git.join("info/attributes"), "* filter=x diff=x merge=x\n").unwrap();
        place.act(&act, &git);
        fs::remove_dir_all(fixture.common()).unwrap();
        run(&fixture.host(), &["cp", "-a", git.to_str().unwrap(), "."]);
        assert!(place.is_breached().is_some(), "{act:?}");
    }
}
