//! Arbitrary commands, and arbitrary files written over them.

use std::fs;

use proptest::prelude::*;

use super::fixture::Fixture;
use crate::RefOutcome;

const COMMANDS: [&str; 34] = [
    "echo $RANDOM$N > a; git commit -qam a$N",
    "echo $N > f$N; git add f$N",
    "git commit -q -m c$N",
    "git commit -q --amend -m d$N",
    "git switch -qc b$N",
    "git switch -q main",
    "git switch -q side",
    "git switch -q --detach",
    "git branch -m x$N",
    "git branch x/y$N",
    "git branch -D side",
    "git branch -f side",
    "git tag t$N",
    "git tag -a -m m u$N",
    "git tag -d v1",
    "git stash -q",
    "git stash pop -q",
    "git stash drop -q",
    "git notes add -m n$N",
    "git merge -q side -m m",
    "git merge --abort",
    "git cherry-pick side",
    "git rebase -q side",
    "git reset -q --hard HEAD~1",
    "git reset -q HEAD~1",
    "git gc -q --prune=now",
    "git repack -qad",
    "git pack-refs --all",
    "git push -q -u origin HEAD",
    "git fetch -q origin",
    "git worktree add -q ../w$N",
    "git config core.hooksPath h$N",
    "git update-index --index-version 4",
    "git rm -q b",
];

const WRITTEN: [&str; 12] = [
    "HEAD",
    "index",
    "config",
    "packed-refs",
    "refs/heads/main",
    "refs/heads/evil",
    "refs/stash",
    "logs/refs/stash",
    "MERGE_HEAD",
    "MERGE_MSG",
    "objects/info/alternates",
    "refs/heads/side/x",
];

#[derive(Debug, Clone)]
enum Act {
    Git(usize),
    Write(usize, Vec<u8>),
    Flip(usize, usize),
    Remove(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (0..COMMANDS.len()).prop_map(Act::Git),
        1 => (0..WRITTEN.len(), prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(name, text)| Act::Write(name, text)),
        1 => (0..WRITTEN.len(), any::<prop::sample::Index>()).prop_map(|(name, at)| Act::Flip(name, at.index(4096))),
        1 => (0..WRITTEN.len()).prop_map(Act::Remove),
    ]
}

fn play(fixture: &Fixture, acts: &[Act]) {
    let git = fixture.task().join(".git");
    for (number, act) in acts.iter().enumerate() {
        match act {
            Act::Git(which) => fixture.script(&format!("-N={number}; {}", COMMANDS[*which])),
            Act::Write(name, text) => drop(fs::write(git.join(WRITTEN[*name]), text)),
            Act::Flip(name, at) => {
                if let Ok(mut text) = fs::read(git.join(WRITTEN[*name]))
                    && !text.is_empty()
                {
                    let at = at % text.len();
                    text[at] ^= 1;
                    drop(fs::write(git.join(WRITTEN[*name]), text));
                }
            }
            Act::Remove(name) => drop(fs::remove_file(git.join(WRITTEN[*name]))),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_work_leaves_a_host_that_passes_fsck(
        acts in prop::collection::vec(act(), 1..14),
        is_upper: bool,
    ) {
        let mut fixture = Fixture::new();
        fixture.is_upper = is_upper;
        play(&fixture, &acts);
        // The import checks that only listed files change, and that git finds no problem.
        let report = fixture.import();
        for change in &report.refs {
            if change.outcome == RefOutcome::Came
                && let Some(new) = change.new.as_ref().filter(|new| !new.starts_with("refs/"))
            {
                let now = fixture.git(&format!("rev-parse {}", change.name));
                prop_assert_eq!(&now, new);
            }
        }
        let state = fixture.host_state();
        fixture.import();
        prop_assert_eq!(fixture.host_state(), state);
    }
}
