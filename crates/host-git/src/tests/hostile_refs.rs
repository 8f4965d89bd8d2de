//! A task's refs and `HEAD` that are meant to destroy or misdirect the host's.

use std::fs;

use super::fixture::{Fixture, script};
use super::hostile::write;
use crate::RefOutcome;

#[test]
fn head_at_a_branch_that_cannot_be_created_does_not_move() {
    for name in ["main/x", "main/x/y"] {
        let fixture = Fixture::new();
        write(&fixture.task().join(".git"), "HEAD", format!("ref: refs/heads/{name}\n").as_bytes());
        let report = fixture.import();
        assert_eq!(fixture.git("symbolic-ref HEAD"), "refs/heads/main");
        assert!(report.left.iter().any(|left| left.path == "HEAD"), "{report:?}");
    }
    // The control: it is imported if the branch that blocks it is removed.
    let fixture = Fixture::new();
    fixture.script("git branch -m main main/x");
    fixture.import();
    assert_eq!(fixture.git("symbolic-ref HEAD"), "refs/heads/main/x");
}

#[test]
fn branch_at_the_hosts_head_remains_when_the_tasks_head_is_bad() {
    for (commands, kept) in [
        ("git update-ref -d refs/heads/main", None),
        // Packed, and with something else in its place.
        ("git pack-refs --all; git update-ref -d refs/heads/main", None),
        ("git branch -m main main/x", Some("refs/sandbox/run-1/heads/main/x")),
        ("git tag main side; git update-ref -d refs/heads/main", Some("refs/sandbox/run-1/tags/main")),
    ] {
        for is_upper in [false, true] {
            let mut fixture = Fixture::new();
            fixture.is_upper = is_upper;
            let main = fixture.git("rev-parse main");
            fixture.script(commands);
            write(&fixture.task().join(".git"), "HEAD", b"ref: refs/heads/../x\n");
            let report = fixture.import();
            assert_eq!(
                fixture.git("rev-parse HEAD refs/heads/main"),
                format!("{main}\n{main}"),
                "{commands}"
            );
            let stayed = report.refs.iter().find(|change| change.name == "refs/heads/main").unwrap();
            assert!(matches!(stayed.outcome, RefOutcome::Stayed { .. }), "{report:?}");
            let ours = fixture.git("for-each-ref --format=%(refname) refs/sandbox");
            assert_eq!(ours, kept.unwrap_or_default(), "{commands}: {report:?}");
            let state = fixture.host_state();
            fixture.import();
            assert_eq!(fixture.host_state(), state, "the same once more");
        }
    }
}

#[test]
fn branch_that_the_host_switched_to_meanwhile_remains() {
    let fixture = Fixture::new();
    fixture.script("git branch -D side");
    script(&fixture.host(), "git switch -q side");
    fixture.import();
    assert_eq!(fixture.git("rev-parse HEAD"), fixture.git("rev-parse v1"));
    assert_eq!(fixture.git("symbolic-ref HEAD"), "refs/heads/side");
}

#[test]
fn branches_and_tags_remain_when_files_replace_their_folders() {
    for is_packed in [false, true] {
        for is_upper in [false, true] {
            let mut fixture = Fixture::with("sha1", |host| {
                script(host, if is_packed { "git pack-refs --all" } else { "true" });
            });
            fixture.is_upper = is_upper;
            let before = fixture.host_state();
            let id = fixture.git("rev-parse side");
            let git = fixture.task().join(".git");
            fixture.script("rm -rf .git/refs/heads .git/refs/tags .git/packed-refs");
            for name in ["heads", "tags"] {
                fs::write(git.join("refs").join(name), &id).unwrap();
            }
            let report = fixture.import();
            assert_eq!(fixture.host_state(), before, "{is_packed} {is_upper}: {report:?}");
            assert!(report.left.iter().any(|left| left.path == "refs/heads"), "{report:?}");
        }
    }
}

/// Our refs on the host, and the commits that they name.
fn ours(fixture: &Fixture) -> String {
    fixture.git("for-each-ref --format=%(refname)=%(objectname) refs/sandbox")
}

#[test]
fn deleted_branch_has_a_backup_even_if_a_weak_ref_leads_to_it() {
    for weak in [
        "git update-ref refs/remotes/origin/zz feature",
        "git update-ref refs/notes/zz feature",
        "git switch -q feature; echo s > a; git stash -q; git switch -q main",
        "git switch -q feature; git commit -q --allow-empty -m x; git switch -q --detach; git branch -f feature main",
        // The host has moved it: the task's value is kept below the run's name.
        "git branch -f side feature",
    ] {
        let fixture = Fixture::with("sha1", |host| {
            script(host, "git switch -qc feature; git commit -q --allow-empty -m own; git switch -q main");
        });
        let feature = fixture.git("rev-parse feature");
        if weak.contains("side") {
            script(&fixture.host(), "git branch -f side main");
        }
        fixture.script(&format!("{weak}; git branch -D feature"));
        let report = fixture.import();
        let backup = "refs/sandbox/backup/run-1/heads/feature";
        assert!(ours(&fixture).contains(&format!("{backup}={feature}")), "{weak}: {report:?}");
        let change = report.refs.iter().find(|change| change.name == "refs/heads/feature").unwrap();
        assert_eq!(change.backup.as_deref(), Some(backup), "{weak}");
    }
}

#[test]
fn ordinary_work_creates_no_backup() {
    for commands in [
        "git branch -m feature other",
        "git branch -m feature feature/inner",
        "git tag kept feature; git branch -D feature",
        "git merge -q feature; git branch -d feature",
        "git switch -q feature; git commit -q --allow-empty -m x",
        // The remote's current state, and a branch that it pruned after merging it there.
        "git -C ../remote.git update-ref refs/heads/main $(git -C ../remote.git rev-parse next); git fetch -q",
        "git -C ../remote.git update-ref refs/heads/main $(git -C ../remote.git rev-parse next); git fetch -q; git branch -rd origin/next",
        "git notes add -m another main~1",
    ] {
        let fixture = Fixture::with("sha1", |host| {
            script(
                host,
                "git switch -qc feature; git commit -q --allow-empty -m own; git switch -qc next main
                 git commit -q --allow-empty -m next; git push -q origin main next; git switch -q main; git branch -qD next
                 git notes add -m note",
            );
        });
        fixture.script(commands);
        let report = fixture.import();
        assert!(!report.is_empty(), "{commands}");
        assert_eq!(ours(&fixture), "", "{commands}: {report:?}");
    }
}

#[test]
fn detached_head_with_commits_of_its_own_has_a_backup_when_the_task_leaves_it() {
    let fixture = || {
        Fixture::with("sha1", |host| {
            script(
                host,
                "git push -q origin main; git switch -q --detach; git commit -q --allow-empty -m own",
            );
        })
    };
    let left = fixture();
    let id = left.git("rev-parse HEAD");
    left.script("git switch -q main");
    let report = left.import();
    let backup = "refs/sandbox/backup/run-1/HEAD";
    assert_eq!(ours(&left), format!("{backup}={id}"), "{report:?}");
    let change = report.refs.iter().find(|change| change.name == "HEAD").unwrap();
    assert_eq!((change.old.as_ref(), change.backup.as_deref()), (Some(&id), Some(backup)));
    for commands in
        ["git switch -qc kept", "git commit -q --allow-empty -m x", "git switch -q main; git merge -q -"]
    {
        let kept = fixture();
        kept.script(commands);
        let report = kept.import();
        assert_eq!(ours(&kept), "", "{commands}: {report:?}");
    }
    // A commit that a remote has is not lost.
    let fetched = Fixture::with("sha1", |host| {
        script(
            host,
            "git switch -q side; git push -q origin main; git switch -q --detach origin/main; git branch -D main; git tag -d v1",
        );
    });
    fetched.script("git switch -q side");
    fetched.import();
    assert_eq!(ours(&fetched), "");
}

#[test]
fn stashes_with_an_invalid_commit_are_not_imported() {
    let other = |message: &str| format!("-p $(git commit-tree -m {message} HEAD^{{tree}})");
    let four = format!("-p main -p side {} {}", other("x"), other("y"));
    for parents in ["", "-p main", &four] {
        let fixture = Fixture::with("sha1", |host| script(host, "echo h > a; git stash -q"));
        let before = fixture.git("stash list --format=%H%gs");
        fixture.script(&format!(
            "git update-ref --create-reflog -m x refs/stash $(git commit-tree {parents} -m x HEAD^{{tree}})"
        ));
        fixture.script("git branch new stash");
        let report = fixture.import();
        assert_eq!(fixture.git("stash list --format=%H%gs"), before, "{parents}");
        let change = report.refs.iter().find(|change| change.name == "refs/stash").unwrap();
        assert!(
            matches!(&change.outcome, RefOutcome::Stayed { why } if why.contains("not a stash")),
            "{report:?}"
        );
        assert_eq!(Some(fixture.git("rev-parse new")), change.new, "another ref can name it");
    }
}

#[test]
fn stash_without_a_time_is_listed_without_direction_controls() {
    for time in ["0", "99999999999999999999"] {
        let fixture = Fixture::with("sha1", |host| script(host, "echo h > a; git stash -q"));
        fixture.script("echo t > a; git stash push -q -u -m theirs");
        let path = fixture.task().join(".git/logs/refs/stash");
        let log = fs::read_to_string(&path).unwrap();
        let (first, last) = log.trim_end().rsplit_once('\n').unwrap();
        let (ids, _) = last.split_once(" A <").unwrap();
        fs::write(&path, format!("{first}\n{ids} A <a@x> {time} +0000\tOn main: \u{202e}theirs\n")).unwrap();
        fixture.import();
        let messages = fixture.git("stash list --format=%gs");
        assert_eq!(messages.lines().next(), Some("On main: theirs"), "{time}");
        assert_eq!(messages.lines().count(), 2, "{time}");
        fixture.git("stash show stash@{0}");
    }
}

/// Refs that have another name than in the task.
fn apart(fixture: &Fixture) -> String {
    fixture.git("for-each-ref --format=%(refname)=%(objectname) refs/sandbox/run-1")
}

#[test]
fn tags_that_shadow_branches_get_another_name() {
    for is_upper in [false, true] {
        let mut fixture = Fixture::with("sha1", |host| {
            script(host, "git push -q origin main; git branch v2; git branch own; git tag own");
            script(host, "git update-ref refs/remotes/up/x main");
            script(host, "git symbolic-ref refs/remotes/up/HEAD refs/remotes/up/x");
        });
        fixture.is_upper = is_upper;
        let git = fixture.task().join(".git");
        let side = fixture.git("rev-parse side");
        for name in ["main", "origin/main", "up", "HEAD", "FETCH_HEAD", &side, "good"] {
            write(&git, &format!("refs/tags/{name}"), format!("{side}\n").as_bytes());
        }
        // A tag that replaces a branch, and one that the host has next to its branch.
        fixture.script("git branch -D v2; git tag v2 side; git tag -f own side");
        let report = fixture.import();
        let tags = fixture.git("for-each-ref --format=%(refname:strip=2)=%(objectname) refs/tags");
        let v1 = fixture.git("rev-parse refs/tags/v1");
        assert_eq!(tags, format!("good={side}\nown={side}\nv1={v1}\nv2={side}"), "{report:?}");
        let stayed = |change: &&crate::RefChange| matches!(change.outcome, RefOutcome::Stayed { .. });
        assert_eq!(report.refs.iter().filter(stayed).count(), 3, "{report:?}");
        let kept = ["main", "origin/main", "up"].map(|name| format!("refs/sandbox/run-1/tags/{name}={side}"));
        assert_eq!(apart(&fixture), kept.join("\n"), "{report:?}");
    }
}

#[test]
fn new_branches_that_shadow_other_refs_get_another_name() {
    for is_upper in [false, true] {
        let mut fixture = Fixture::with("sha1", |host| {
            script(host, "git push -q origin main; git tag own; git branch own; git tag gone");
            script(host, "git update-ref refs/remotes/up/x main");
            script(host, "git symbolic-ref refs/remotes/up/HEAD refs/remotes/up/x");
        });
        fixture.is_upper = is_upper;
        let meant = ["v1", "origin/main", "up", "tags/v1", "heads/side"];
        let before = meant.map(|name| fixture.git(&format!("rev-parse {name}")));
        let git = fixture.task().join(".git");
        fixture.script("git commit -q --allow-empty -m x");
        let id = super::fixture::git(&fixture.task(), "rev-parse main").trim().to_owned();
        // `good/main` is harmless, and so are a branch that the host has next to its tag, and one
        // that replaces a tag.
        for name in [&meant[..], &["good/main", "own", "gone"]].concat() {
            write(&git, &format!("refs/heads/{name}"), format!("{id}\n").as_bytes());
        }
        fixture.script("git tag -d gone");
        let report = fixture.import();
        assert_eq!(meant.map(|name| fixture.git(&format!("rev-parse {name}"))), before, "{report:?}");
        let came = fixture.git("for-each-ref --points-at main --format=%(refname:short) refs/heads");
        assert_eq!(came, "gone\ngood/main\nmain\nheads/own", "{report:?}");
        let mut kept = meant.map(|name| format!("refs/sandbox/run-1/heads/{name}={id}"));
        kept.sort();
        assert_eq!(apart(&fixture), kept.join("\n"), "{report:?}");
        let state = fixture.host_state();
        fixture.import();
        assert_eq!(fixture.host_state(), state, "the same once more");
    }
}

#[test]
fn new_refs_that_shadow_objects_get_another_name() {
    for format in ["sha1", "sha256"] {
        let fixture =
            Fixture::with(format, |host| script(host, "git branch $(git rev-parse --short=5 main)"));
        let digits = |count: usize| fixture.git("rev-parse main")[..count].to_owned();
        let described = format!("v1-1-g{}", digits(7));
        let taken = [digits(4), digits(7), digits(39), digits(8).to_uppercase(), described];
        let file = fixture.git("rev-parse main:a")[..9].to_owned();
        // The controls: no object has this name, only a part of the name is an object, and the host
        // has such a branch.
        let free = if digits(4) == "beef" { "dead" } else { "beef" };
        let (free, inner) = (format!("{free}beefbeef"), format!("x/{}", digits(7)));
        let git = fixture.task().join(".git");
        let side = fixture.git("rev-parse side");
        for name in taken.iter().chain([&file, &free, &inner, &digits(5)]) {
            write(&git, &format!("refs/heads/{name}"), format!("{side}\n").as_bytes());
        }
        write(&git, &format!("refs/tags/{}", digits(6)), format!("{side}\n").as_bytes());
        write(&git, &format!("refs/remotes/{}/x", digits(10)), format!("{side}\n").as_bytes());
        let head = format!("ref: refs/remotes/{}/x\n", digits(10));
        write(&git, &format!("refs/remotes/{}/HEAD", digits(10)), head.as_bytes());
        let report = fixture.import();
        for name in &taken {
            assert_eq!(
                fixture.git(&format!("rev-parse {name}")),
                fixture.git("rev-parse main"),
                "{report:?}"
            );
            assert_eq!(
                fixture.git(&format!("rev-parse refs/sandbox/run-1/heads/{name}")),
                side,
                "{report:?}"
            );
        }
        assert_eq!(fixture.git(&format!("rev-parse {file}")), fixture.git("rev-parse main:a"), "{report:?}");
        for name in [free, inner, digits(5)] {
            assert_eq!(fixture.git(&format!("rev-parse refs/heads/{name}")), side, "{report:?}");
        }
        for count in [6, 10] {
            assert_eq!(fixture.git(&format!("rev-parse {}", digits(count))), fixture.git("rev-parse main"));
        }
    }
}

#[test]
fn head_at_a_new_branch_with_an_ambiguous_name_does_not_move() {
    for (name, expected) in [("v1", false), ("SHORT", false), ("free", true)] {
        for commands in ["git switch -qc", "git switch -q --orphan"] {
            let fixture = Fixture::new();
            let name = name.replace("SHORT", &fixture.git("rev-parse --short side"));
            fixture.script(&format!("{commands} {name}"));
            let report = fixture.import();
            let expected = if expected { &*name } else { "main" };
            assert_eq!(fixture.git("symbolic-ref --short HEAD"), expected, "{commands}: {report:?}");
        }
    }
}

#[test]
fn too_many_possible_abbreviations_are_all_treated_as_objects() {
    let fixture = Fixture::new();
    let host = crate::HostRepository::open(&fixture.common()).unwrap();
    let git = host.git(&fixture.limits);
    for (count, expected) in [(5000, 0), (5001, 5001)] {
        let digits = (0..count).map(|number| format!("{number:040x}")).collect();
        assert_eq!(crate::objects::abbreviations(&git, digits).unwrap().len(), expected);
    }
}

#[test]
fn changed_refs_above_the_limit_are_not_imported_and_the_first_are() {
    for is_upper in [false, true] {
        let mut fixture =
            Fixture::with("sha1", |host| script(host, "git branch y; git branch z; git pack-refs --all"));
        (fixture.is_upper, fixture.limits.changed_refs) = (is_upper, 4);
        let before = fixture.git("rev-parse main y z").replace('\n', " ");
        fixture.script("git branch a; git branch b; git branch c; git branch -D z; git branch -f y side");
        fixture.script("git update-ref refs/foo/a main; git switch -qc zz; git commit -q --allow-empty -m x");
        let report = fixture.import();
        let names = fixture.git("for-each-ref --format=%(refname:short) refs/heads").replace('\n', " ");
        assert_eq!(names, "a b c main side y z zz", "{report:?}");
        assert_eq!(fixture.git("rev-parse main y z").replace('\n', " "), before);
        assert_eq!(fixture.git("symbolic-ref --short HEAD"), "zz");
        let left: Vec<&str> = report.left.iter().map(|left| left.why.as_str()).collect();
        assert_eq!(left, ["3 more refs changed than the 4 that are imported from one task"]);
        // The control: as many as may change.
        fixture.limits.changed_refs = 7;
        let report = fixture.import();
        assert!(report.left.is_empty(), "{report:?}");
        assert_eq!(fixture.git("rev-parse y"), fixture.git("rev-parse side"));
    }
}

#[test]
fn many_refs_that_block_others_are_imported() {
    let count = 300;
    let fixture = Fixture::with("sha1", |host| {
        let lines = |number| format!("create refs/heads/w{number} HEAD\n");
        fs::write(host.join(".git/in"), (0..count).map(lines).collect::<Vec<_>>().concat()).unwrap();
        script(host, "git update-ref --stdin < .git/in; rm .git/in; git pack-refs --all");
    });
    let lines = |number| format!("create refs/heads/w{number}/x HEAD\n");
    let removed = |number| format!("delete refs/heads/w{number}\n");
    fs::write(fixture.task().join(".git/gone"), (0..count).map(removed).collect::<Vec<_>>().concat())
        .unwrap();
    fs::write(fixture.task().join(".git/in"), (0..count).map(lines).collect::<Vec<_>>().concat()).unwrap();
    fixture
        .script("git update-ref --stdin < .git/gone; git update-ref --stdin < .git/in; rm .git/in .git/gone");
    let report = fixture.import();
    let came = report.refs.iter().filter(|change| change.outcome == RefOutcome::Came).count();
    assert_eq!(came, 2 * count, "{report:?}");
    assert_eq!(fixture.git("for-each-ref --format=x refs/heads/w*/x").lines().count(), count);
}
