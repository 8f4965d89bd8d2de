//! A task's refs and `HEAD` that are meant to destroy or misdirect the host's.

use std::fs;

use super::bed::{Bed, script};
use super::hostile::write;
use crate::RefOutcome;

#[test]
fn head_at_a_branch_that_cannot_be_created_does_not_move() {
    for name in ["main/x", "main/x/y"] {
        let bed = Bed::new();
        write(&bed.task().join(".git"), "HEAD", format!("ref: refs/heads/{name}\n").as_bytes());
        let report = bed.import();
        assert_eq!(bed.git("symbolic-ref HEAD"), "refs/heads/main");
        assert!(report.left.iter().any(|left| left.path == "HEAD"), "{report:?}");
    }
    // The control: it is imported if the branch that blocks it is removed.
    let bed = Bed::new();
    bed.script("git branch -m main main/x");
    bed.import();
    assert_eq!(bed.git("symbolic-ref HEAD"), "refs/heads/main/x");
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
            let mut bed = Bed::new();
            bed.is_upper = is_upper;
            let main = bed.git("rev-parse main");
            bed.script(commands);
            write(&bed.task().join(".git"), "HEAD", b"ref: refs/heads/../x\n");
            let report = bed.import();
            assert_eq!(bed.git("rev-parse HEAD refs/heads/main"), format!("{main}\n{main}"), "{commands}");
            let stayed = report.refs.iter().find(|change| change.name == "refs/heads/main").unwrap();
            assert!(matches!(stayed.outcome, RefOutcome::Stayed { .. }), "{report:?}");
            let ours = bed.git("for-each-ref --format=%(refname) refs/sandbox");
            assert_eq!(ours, kept.unwrap_or_default(), "{commands}: {report:?}");
            let says = bed.host_says();
            bed.import();
            assert_eq!(bed.host_says(), says, "the same once more");
        }
    }
}

#[test]
fn branch_that_the_host_switched_to_meanwhile_remains() {
    let bed = Bed::new();
    bed.script("git branch -D side");
    script(&bed.host(), "git switch -q side");
    bed.import();
    assert_eq!(bed.git("rev-parse HEAD"), bed.git("rev-parse v1"));
    assert_eq!(bed.git("symbolic-ref HEAD"), "refs/heads/side");
}

#[test]
fn branches_and_tags_remain_when_files_replace_their_folders() {
    for is_packed in [false, true] {
        for is_upper in [false, true] {
            let mut bed = Bed::with("sha1", |host| {
                script(host, if is_packed { "git pack-refs --all" } else { "true" });
            });
            bed.is_upper = is_upper;
            let before = bed.host_says();
            let id = bed.git("rev-parse side");
            let git = bed.task().join(".git");
            bed.script("rm -rf .git/refs/heads .git/refs/tags .git/packed-refs");
            for name in ["heads", "tags"] {
                fs::write(git.join("refs").join(name), &id).unwrap();
            }
            let report = bed.import();
            assert_eq!(bed.host_says(), before, "{is_packed} {is_upper}: {report:?}");
            assert!(report.left.iter().any(|left| left.path == "refs/heads"), "{report:?}");
        }
    }
}

/// Our refs on the host, and the commits that they name.
fn ours(bed: &Bed) -> String {
    bed.git("for-each-ref --format=%(refname)=%(objectname) refs/sandbox")
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
        let bed = Bed::with("sha1", |host| {
            script(host, "git switch -qc feature; git commit -q --allow-empty -m own; git switch -q main");
        });
        let feature = bed.git("rev-parse feature");
        if weak.contains("side") {
            script(&bed.host(), "git branch -f side main");
        }
        bed.script(&format!("{weak}; git branch -D feature"));
        let report = bed.import();
        let backup = "refs/sandbox/backup/run-1/heads/feature";
        assert!(ours(&bed).contains(&format!("{backup}={feature}")), "{weak}: {report:?}");
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
        let bed = Bed::with("sha1", |host| {
            script(
                host,
                "git switch -qc feature; git commit -q --allow-empty -m own; git switch -qc next main
                 git commit -q --allow-empty -m next; git push -q origin main next; git switch -q main; git branch -qD next
                 git notes add -m note",
            );
        });
        bed.script(commands);
        let report = bed.import();
        assert!(!report.is_empty(), "{commands}");
        assert_eq!(ours(&bed), "", "{commands}: {report:?}");
    }
}

#[test]
fn detached_head_with_commits_of_its_own_has_a_backup_when_the_task_leaves_it() {
    let bed = || {
        Bed::with("sha1", |host| {
            script(
                host,
                "git push -q origin main; git switch -q --detach; git commit -q --allow-empty -m own",
            );
        })
    };
    let left = bed();
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
        let kept = bed();
        kept.script(commands);
        let report = kept.import();
        assert_eq!(ours(&kept), "", "{commands}: {report:?}");
    }
    // A commit that a remote has is not lost.
    let fetched = Bed::with("sha1", |host| {
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
        let bed = Bed::with("sha1", |host| script(host, "echo h > a; git stash -q"));
        let before = bed.git("stash list --format=%H%gs");
        bed.script(&format!(
            "git update-ref --create-reflog -m x refs/stash $(git commit-tree {parents} -m x HEAD^{{tree}})"
        ));
        bed.script("git branch new stash");
        let report = bed.import();
        assert_eq!(bed.git("stash list --format=%H%gs"), before, "{parents}");
        let change = report.refs.iter().find(|change| change.name == "refs/stash").unwrap();
        assert!(
            matches!(&change.outcome, RefOutcome::Stayed { why } if why.contains("not a stash")),
            "{report:?}"
        );
        assert_eq!(Some(bed.git("rev-parse new")), change.new, "another ref can name it");
    }
}

#[test]
fn stash_without_a_time_is_listed_without_direction_controls() {
    for time in ["0", "99999999999999999999"] {
        let bed = Bed::with("sha1", |host| script(host, "echo h > a; git stash -q"));
        bed.script("echo t > a; git stash push -q -u -m theirs");
        let path = bed.task().join(".git/logs/refs/stash");
        let log = fs::read_to_string(&path).unwrap();
        let (first, last) = log.trim_end().rsplit_once('\n').unwrap();
        let (ids, _) = last.split_once(" A <").unwrap();
        fs::write(&path, format!("{first}\n{ids} A <a@x> {time} +0000\tOn main: \u{202e}theirs\n")).unwrap();
        bed.import();
        let messages = bed.git("stash list --format=%gs");
        assert_eq!(messages.lines().next(), Some("On main: theirs"), "{time}");
        assert_eq!(messages.lines().count(), 2, "{time}");
        bed.git("stash show stash@{0}");
    }
}

/// Refs that have another name than in the task.
fn apart(bed: &Bed) -> String {
    bed.git("for-each-ref --format=%(refname)=%(objectname) refs/sandbox/run-1")
}

#[test]
fn tags_that_shadow_branches_get_another_name() {
    for is_upper in [false, true] {
        let mut bed = Bed::with("sha1", |host| {
            script(host, "git push -q origin main; git branch v2; git branch own; git tag own");
            script(host, "git update-ref refs/remotes/up/x main");
            script(host, "git symbolic-ref refs/remotes/up/HEAD refs/remotes/up/x");
        });
        bed.is_upper = is_upper;
        let git = bed.task().join(".git");
        let side = bed.git("rev-parse side");
        for name in ["main", "origin/main", "up", "HEAD", "FETCH_HEAD", &side, "good"] {
            write(&git, &format!("refs/tags/{name}"), format!("{side}\n").as_bytes());
        }
        // A tag that replaces a branch, and one that the host has next to its branch.
        bed.script("git branch -D v2; git tag v2 side; git tag -f own side");
        let report = bed.import();
        let tags = bed.git("for-each-ref --format=%(refname:strip=2)=%(objectname) refs/tags");
        let v1 = bed.git("rev-parse refs/tags/v1");
        assert_eq!(tags, format!("good={side}\nown={side}\nv1={v1}\nv2={side}"), "{report:?}");
        let stayed = |change: &&crate::RefChange| matches!(change.outcome, RefOutcome::Stayed { .. });
        assert_eq!(report.refs.iter().filter(stayed).count(), 3, "{report:?}");
        let kept = ["main", "origin/main", "up"].map(|name| format!("refs/sandbox/run-1/tags/{name}={side}"));
        assert_eq!(apart(&bed), kept.join("\n"), "{report:?}");
    }
}

#[test]
fn new_branches_that_shadow_other_refs_get_another_name() {
    for is_upper in [false, true] {
        let mut bed = Bed::with("sha1", |host| {
            script(host, "git push -q origin main; git tag own; git branch own; git tag gone");
            script(host, "git update-ref refs/remotes/up/x main");
            script(host, "git symbolic-ref refs/remotes/up/HEAD refs/remotes/up/x");
        });
        bed.is_upper = is_upper;
        let meant = ["v1", "origin/main", "up", "tags/v1", "heads/side"];
        let before = meant.map(|name| bed.git(&format!("rev-parse {name}")));
        let git = bed.task().join(".git");
        bed.script("git commit -q --allow-empty -m x");
        let id = super::bed::git(&bed.task(), "rev-parse main").trim().to_owned();
        // `good/main` is harmless, and so are a branch that the host has next to its tag, and one
        // that replaces a tag.
        for name in [&meant[..], &["good/main", "own", "gone"]].concat() {
            write(&git, &format!("refs/heads/{name}"), format!("{id}\n").as_bytes());
        }
        bed.script("git tag -d gone");
        let report = bed.import();
        assert_eq!(meant.map(|name| bed.git(&format!("rev-parse {name}"))), before, "{report:?}");
        let came = bed.git("for-each-ref --points-at main --format=%(refname:short) refs/heads");
        assert_eq!(came, "gone\ngood/main\nmain\nheads/own", "{report:?}");
        let mut kept = meant.map(|name| format!("refs/sandbox/run-1/heads/{name}={id}"));
        kept.sort();
        assert_eq!(apart(&bed), kept.join("\n"), "{report:?}");
        let says = bed.host_says();
        bed.import();
        assert_eq!(bed.host_says(), says, "the same once more");
    }
}

#[test]
fn new_refs_that_shadow_objects_get_another_name() {
    for format in ["sha1", "sha256"] {
        let bed = Bed::with(format, |host| script(host, "git branch $(git rev-parse --short=5 main)"));
        let digits = |count: usize| bed.git("rev-parse main")[..count].to_owned();
        let described = format!("v1-1-g{}", digits(7));
        let taken = [digits(4), digits(7), digits(39), digits(8).to_uppercase(), described];
        let file = bed.git("rev-parse main:a")[..9].to_owned();
        // The controls: no object has this name, only a part of the name is an object, and the host
        // has such a branch.
        let free = if digits(4) == "beef" { "dead" } else { "beef" };
        let (free, inner) = (format!("{free}beefbeef"), format!("x/{}", digits(7)));
        let git = bed.task().join(".git");
        let side = bed.git("rev-parse side");
        for name in taken.iter().chain([&file, &free, &inner, &digits(5)]) {
            write(&git, &format!("refs/heads/{name}"), format!("{side}\n").as_bytes());
        }
        write(&git, &format!("refs/tags/{}", digits(6)), format!("{side}\n").as_bytes());
        write(&git, &format!("refs/remotes/{}/x", digits(10)), format!("{side}\n").as_bytes());
        let head = format!("ref: refs/remotes/{}/x\n", digits(10));
        write(&git, &format!("refs/remotes/{}/HEAD", digits(10)), head.as_bytes());
        let report = bed.import();
        for name in &taken {
            assert_eq!(bed.git(&format!("rev-parse {name}")), bed.git("rev-parse main"), "{report:?}");
            assert_eq!(bed.git(&format!("rev-parse refs/sandbox/run-1/heads/{name}")), side, "{report:?}");
        }
        assert_eq!(bed.git(&format!("rev-parse {file}")), bed.git("rev-parse main:a"), "{report:?}");
        for name in [free, inner, digits(5)] {
            assert_eq!(bed.git(&format!("rev-parse refs/heads/{name}")), side, "{report:?}");
        }
        for count in [6, 10] {
            assert_eq!(bed.git(&format!("rev-parse {}", digits(count))), bed.git("rev-parse main"));
        }
    }
}

#[test]
fn head_at_a_new_branch_with_an_ambiguous_name_does_not_move() {
    for (name, expected) in [("v1", false), ("SHORT", false), ("free", true)] {
        for commands in ["git switch -qc", "git switch -q --orphan"] {
            let bed = Bed::new();
            let name = name.replace("SHORT", &bed.git("rev-parse --short side"));
            bed.script(&format!("{commands} {name}"));
            let report = bed.import();
            let expected = if expected { &*name } else { "main" };
            assert_eq!(bed.git("symbolic-ref --short HEAD"), expected, "{commands}: {report:?}");
        }
    }
}

#[test]
fn too_many_possible_abbreviations_are_all_treated_as_objects() {
    let bed = Bed::new();
    let host = crate::HostRepository::open(&bed.common()).unwrap();
    let git = host.git(&bed.limits);
    for (count, expected) in [(5000, 0), (5001, 5001)] {
        let digits = (0..count).map(|number| format!("{number:040x}")).collect();
        assert_eq!(crate::objects::abbreviations(&git, digits).unwrap().len(), expected);
    }
}

#[test]
fn changed_refs_above_the_limit_are_not_imported_and_the_first_are() {
    for is_upper in [false, true] {
        let mut bed =
            Bed::with("sha1", |host| script(host, "git branch y; git branch z; git pack-refs --all"));
        (bed.is_upper, bed.limits.changed_refs) = (is_upper, 4);
        let before = bed.git("rev-parse main y z").replace('\n', " ");
        bed.script("git branch a; git branch b; git branch c; git branch -D z; git branch -f y side");
        bed.script("git update-ref refs/foo/a main; git switch -qc zz; git commit -q --allow-empty -m x");
        let report = bed.import();
        let names = bed.git("for-each-ref --format=%(refname:short) refs/heads").replace('\n', " ");
        assert_eq!(names, "a b c main side y z zz", "{report:?}");
        assert_eq!(bed.git("rev-parse main y z").replace('\n', " "), before);
        assert_eq!(bed.git("symbolic-ref --short HEAD"), "zz");
        let left: Vec<&str> = report.left.iter().map(|left| left.why.as_str()).collect();
        assert_eq!(left, ["3 more refs changed than the 4 that come from one task"]);
        // The control: as many as may change.
        bed.limits.changed_refs = 7;
        let report = bed.import();
        assert!(report.left.is_empty(), "{report:?}");
        assert_eq!(bed.git("rev-parse y"), bed.git("rev-parse side"));
    }
}

#[test]
fn many_refs_that_block_others_are_imported() {
    let count = 300;
    let bed = Bed::with("sha1", |host| {
        let lines = |number| format!("create refs/heads/w{number} HEAD\n");
        fs::write(host.join(".git/in"), (0..count).map(lines).collect::<Vec<_>>().concat()).unwrap();
        script(host, "git update-ref --stdin < .git/in; rm .git/in; git pack-refs --all");
    });
    let lines = |number| format!("create refs/heads/w{number}/x HEAD\n");
    let removed = |number| format!("delete refs/heads/w{number}\n");
    fs::write(bed.task().join(".git/gone"), (0..count).map(removed).collect::<Vec<_>>().concat()).unwrap();
    fs::write(bed.task().join(".git/in"), (0..count).map(lines).collect::<Vec<_>>().concat()).unwrap();
    bed.script("git update-ref --stdin < .git/gone; git update-ref --stdin < .git/in; rm .git/in .git/gone");
    let report = bed.import();
    let came = report.refs.iter().filter(|change| change.outcome == RefOutcome::Came).count();
    assert_eq!(came, 2 * count, "{report:?}");
    assert_eq!(bed.git("for-each-ref --format=x refs/heads/w*/x").lines().count(), count);
}
