//! Imports that are killed and continued.

use super::fixture::{Fixture, git, script};
use crate::Error;
use crate::fail_point::FailPoint;

/// Changes that need every step of an import.
const WORK: &str = "
    git branch -m side side/inner
    git tag -d v1
    git fetch -q origin; git remote set-head origin -a
    echo s > a; git stash -q
    echo t > a; git stash -q
    git switch -qc more
    git branch -u origin/main
    echo n > n; git add n; git commit -qm n
    git switch -q side/inner; echo y > a; git commit -qam y
    git switch -q more
    -git merge side/inner
";

fn fixture() -> Fixture {
    Fixture::with("sha1", |host| {
        script(host, "git push -q origin main; git -C ../remote.git symbolic-ref HEAD refs/heads/main");
        script(host, "git commit -q --allow-empty -m ahead; echo z > b; git stash -q");
    })
}

#[test]
fn import_killed_at_any_point_ends_the_same_when_repeated() {
    let whole = fixture();
    whole.script(WORK);
    whole.import();
    // Ids of commits depend on the clock: the refs are compared with each task's own.
    let shape = |fixture: &Fixture| -> Vec<String> {
        let refs = fixture.git("for-each-ref --format=%(refname)");
        refs.lines().map(|name| name.split("/stash/").next().unwrap().to_owned()).collect()
    };
    for stop in 0.. {
        let mut fixture = fixture();
        fixture.is_upper = stop % 2 == 0;
        fixture.script(WORK);
        let mut left = stop;
        let killed = fixture.import_with(&mut |_| {
            let goes_on = left > 0;
            left -= i32::from(goes_on);
            goes_on
        });
        if killed.is_ok() {
            assert!(stop > 15, "{stop}");
            break;
        }
        fixture.import();
        assert_eq!(shape(&fixture), shape(&whole), "{stop}");
        let ours = |line: &&str| !line.starts_with("refs/sandbox/");
        let state = fixture.host_state();
        assert_eq!(
            state.lines().filter(ours).collect::<Vec<_>>(),
            fixture.task_state().lines().collect::<Vec<_>>(),
            "{stop}"
        );
        assert_eq!(fixture.git("config branch.more.merge"), "refs/heads/main");
    }
}
#[test]
fn import_killed_before_it_wrote_a_ref_changes_nothing_visible() {
    let fixture = fixture();
    fixture.script(WORK);
    let before = fixture.host_state();
    for stop in 0..3 {
        let mut left = stop;
        fixture
            .import_with(&mut |_| {
                left -= 1;
                left >= 0
            })
            .unwrap_err();
        assert_eq!(fixture.host_state(), before, "{stop}");
        super::fixture::git(&fixture.host(), "fsck --strict");
    }
}

#[test]
fn killed_import_of_the_longest_names_ends_when_repeated() {
    let long = ["x".repeat(240), "y".repeat(240), "z".repeat(240), "l".repeat(240)].join("/");
    // As deep as a loose ref can be, and one that only packed refs have.
    let (deep, too_deep) = (["d"; 40].join("/"), ["e"; 60].join("/"));
    for is_upper in [false, true] {
        let mut fixture = Fixture::with("sha1", |host| {
            script(host, &format!("git branch {long}; git branch {deep}; git commit -q --allow-empty -m x"));
            script(host, &format!("git branch deleted/{long}; git reset -q --hard HEAD~1"));
        });
        fixture.is_upper = is_upper;
        fixture
            .script(&format!("git commit -q --allow-empty -m t; git branch -f {long}; git branch -f {deep}"));
        fixture.script("git branch -q -D $(git for-each-ref --format='%(refname:short)' refs/heads/deleted)");
        fixture.script(&format!("git branch {too_deep}; git pack-refs --all"));
        script(&fixture.host(), &format!("git branch -f {long} v1; git branch -f {deep} v1"));
        fixture.import_with(&mut |point| point != FailPoint::Symbolic).unwrap_err();
        let state = fixture.host_state();
        let report = fixture.import();
        assert_eq!(fixture.host_state(), state, "{report:?}");
        let kept = fixture.git("for-each-ref --format=%(objectname) refs/sandbox/run-1");
        let id = git(&fixture.task(), "rev-parse main");
        assert_eq!(kept, format!("{id}{}", id.trim_end()), "{report:?}");
        let backups = fixture.git("for-each-ref --format=%(refname) refs/sandbox/backup");
        assert!(backups.starts_with("refs/sandbox/backup/run-1/long/") && backups.len() < 100, "{backups}");
    }
}

#[test]
fn lock_of_another_process_is_respected() {
    let fixture = Fixture::new();
    fixture.script("echo x > c; git add c");
    std::fs::write(fixture.common().join("index.lock"), "").unwrap();
    let error = fixture.import_with(&mut |_| true).unwrap_err();
    assert!(
        matches!(&error, Error::Locked { path } if *path == fixture.common().join("index.lock")),
        "{error}"
    );
    assert!(error.to_string().contains("remove it"), "{error}");
    assert!(fixture.common().join("index.lock").exists());
    std::fs::remove_file(fixture.common().join("index.lock")).unwrap();
    fixture.import();
    assert_eq!(fixture.host_state(), fixture.task_state());
}

#[test]
fn first_stash_of_a_host_is_listed_after_a_killed_import() {
    let fixture = Fixture::new();
    fixture.script("echo s > a; git stash -q");
    let killed = fixture.import_with(&mut |point| point != FailPoint::Symbolic);
    killed.unwrap_err();
    assert_eq!(fixture.git("stash list"), "", "the control");
    fixture.import();
    assert_eq!(fixture.host_state(), fixture.task_state());
}

#[test]
fn log_of_stashes_emptied_by_a_loss_of_power_drops_none() {
    let fixture =
        Fixture::with("sha1", |host| script(host, "echo s > a; git stash -q; echo t > a; git stash -q"));
    let before = fixture.git("stash list");
    std::fs::write(fixture.task().join(".git/logs/refs/stash"), "").unwrap();
    fixture.import();
    assert_eq!(fixture.git("stash list"), before);
    fixture.script("git stash drop -q stash@{1} || git stash clear");
    fixture.import();
    assert_ne!(fixture.git("stash list"), before, "the control");
}
