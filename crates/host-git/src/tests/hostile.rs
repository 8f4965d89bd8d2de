//! Views that no git would create.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use sha1::{Digest as _, Sha1};

use super::fixture::{Fixture, files, git, script};
use crate::{Error, Limits, Report};

/// An attacker's changes to the folder of a view.
type Attack = fn(&Path);

/// Attacks that leave the host's refs, `HEAD` and index unchanged, whatever else the task
/// committed.
const NOTHING_COMES: [(&str, Attack); 20] = [
    ("HEAD is a link", |git| replace_by_link(git, "HEAD", "/etc/passwd")),
    ("HEAD leads elsewhere", |git| write(git, "HEAD", b"ref: ../../etc/passwd\n")),
    ("HEAD is a ref that is not a branch", |git| write(git, "HEAD", b"ref: refs/sandbox/x\n")),
    ("HEAD is a pipe", |git| {
        fs::remove_file(git.join("HEAD")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, git.join("HEAD"), 0o600.into()).unwrap();
    }),
    ("HEAD is gone", |git| fs::remove_file(git.join("HEAD")).unwrap()),
    ("refs are a link", |git| {
        fs::rename(git.join("refs"), git.join("other")).unwrap();
        symlink("other", git.join("refs")).unwrap();
        fs::remove_dir_all(git.join("other")).unwrap();
    }),
    ("refs are links", |git| {
        for name in ["main", "side"] {
            replace_by_link(git, &format!("refs/heads/{name}"), "/etc/passwd");
        }
    }),
    ("a ref of a length that no id has", |git| write(git, "refs/heads/main", &[b'a'; 4000])),
    ("names with escapes", |git| {
        let id = fs::read(git.join("refs/heads/main")).unwrap();
        for name in ["a\x1b[2J", "-x", "HEAD", "a b", "a.lock", "\u{202e}x\u{9b}", "x~1", "a\nb"] {
            write(git, &format!("refs/heads/{name}"), &id);
        }
    }),
    ("packed refs with names that lead elsewhere", |git| {
        let id = fs::read_to_string(git.join("refs/heads/main")).unwrap();
        let id = id.trim();
        let lines = [
            "../../../etc/x",
            "config",
            "refs/heads/../../config",
            "refs/replace/x",
            "refs/worktree/x",
            "HEAD",
        ];
        let text: String = lines.map(|name| format!("{id} {name}\n")).concat();
        write(git, "packed-refs", text.as_bytes());
    }),
    ("refs that are other refs' names", |git| {
        write(git, "refs/heads/alias", b"ref: refs/heads/main\n");
        write(git, "refs/remotes/origin/HEAD", b"ref: refs/heads/main\n");
        write(git, "refs/remotes/origin/x", b"ref: refs/remotes/origin/y\n");
    }),
    ("refs to objects that are not there", |git| {
        write(git, "refs/heads/main", &[&[b'1'; 40][..], b"\n"].concat());
        write(git, "refs/tags/gone", &[&[b'2'; 40][..], b"\n"].concat());
    }),
    ("a branch that is a file", |git| {
        let id = made(git, "blob", b"no commit");
        write(git, "refs/heads/main", format!("{id}\n").as_bytes());
        write(git, "HEAD", format!("{id}\n").as_bytes());
    }),
    ("index with a path that leads elsewhere", |git| {
        let text = fs::read(git.join("index")).unwrap();
        // The first name follows the header, times and numbers, the object and the flags.
        let mut text = text;
        text[12 + 40 + 20 + 2] = b'/';
        write(git, "index", &text);
    }),
    ("index that is a link", |git| replace_by_link(git, "index", "/etc/passwd")),
    ("index cut off", |git| {
        let text = fs::read(git.join("index")).unwrap();
        write(git, "index", &text[..text.len() / 2]);
    }),
    ("configuration that runs programs", |git| {
        let mut config = fs::read(git.join("config")).unwrap();
        config.extend(b"[core]\n\thooksPath = h\n\tfsmonitor = touch /tmp/x\n\tsshCommand = x\n\tpager = x\n[filter \"x\"]\n\tclean = x\n[alias]\n\tst = !x\n[include]\n\tpath = /etc/passwd\n[branch \"main\"]\n\tremote = ext::x\n\tmerge = refs/heads/side\n[diff]\n\texternal = x\n");
        write(git, "config", &config);
        write(git, "info/attributes", b"* filter=x\n");
        write(git, "hooks/post-checkout", b"#!/bin/sh\n");
    }),
    ("alternates, grafts, replacements, shallow", |git| {
        let id = fs::read_to_string(git.join("refs/heads/main")).unwrap();
        let other = fs::read_to_string(git.join("refs/heads/side")).unwrap();
        write(git, "objects/info/alternates", b"/etc\n../../../other\n");
        write(git, "info/grafts", format!("{} {}", id.trim(), other).as_bytes());
        write(git, "shallow", id.as_bytes());
        write(git, &format!("refs/replace/{}", id.trim()), other.as_bytes());
    }),
    ("a merge of a missing commit", |git| {
        write(git, "MERGE_HEAD", &[b'3'; 40]);
        write(git, "MERGE_MSG", b"\x1b]0;x\x07");
    }),
    ("a log of stashes that are not there", |git| {
        write(git, "refs/stash", &[b'4'; 40]);
        let line = format!("{} {} x <x> 1 +0000\tx\n", "0".repeat(40), "4".repeat(40));
        write(git, "logs/refs/stash", line.as_bytes());
    }),
];

pub(super) fn write(git: &Path, name: &str, text: &[u8]) {
    let path = git.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn replace_by_link(git: &Path, name: &str, target: &str) {
    fs::remove_file(git.join(name)).unwrap();
    symlink(target, git.join(name)).unwrap();
}

/// Writes a loose object under the name of its content.
pub(super) fn made(git: &Path, kind: &str, content: &[u8]) -> String {
    let text = [format!("{kind} {}\0", content.len()).as_bytes(), content].concat();
    let id = sandbox_files::hex(&Sha1::digest(&text));
    loose(git, &id, &text);
    id
}

fn loose(git: &Path, id: &str, text: &[u8]) {
    let path = git.join(format!("objects/{}/{}", &id[..2], &id[2..]));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut packed =
        flate2::write::ZlibEncoder::new(fs::File::create(path).unwrap(), flate2::Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap();
}

fn tree(entries: &[(&str, &str, &str)]) -> Vec<u8> {
    let bytes = |id: &str| -> Vec<u8> {
        (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect()
    };
    entries
        .iter()
        .flat_map(|(mode, name, id)| [format!("{mode} {name}\0").into_bytes(), bytes(id)].concat())
        .collect()
}

fn commit(git: &Path, tree: &str) -> String {
    made(
        git,
        "commit",
        format!("tree {tree}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx\n").as_bytes(),
    )
}

/// Fails unless all host files are unchanged.
fn unchanged_after(attack: impl FnOnce(&Path), is_upper: bool, name: &str) -> Report {
    let mut fixture = Fixture::new();
    fixture.is_upper = is_upper;
    attack(&fixture.task().join(".git"));
    // An object that no ref of its kind can name is harmless.
    let all = || {
        let mut all = files(&fixture.common());
        all.retain(|path, _| name != "a branch that is a file" || !path.starts_with("objects"));
        all
    };
    let before = all();
    let report = fixture.import();
    assert!(all() == before, "{name}: {report:?}");
    report
}

#[test]
fn files_that_no_git_would_write_are_not_imported() {
    for is_upper in [false, true] {
        for (name, attack) in NOTHING_COMES {
            let report = unchanged_after(attack, is_upper, name);
            let has_said = !report.left.is_empty() || !report.refs.is_empty() || !report.settings.is_empty();
            assert!(has_said && report.is_empty(), "{name}: {report:?}");
        }
    }
}

#[test]
fn good_objects_are_imported_next_to_bad_ones() {
    for (name, attack) in NOTHING_COMES {
        let fixture = Fixture::new();
        attack(&fixture.task().join(".git"));
        let id = made(&fixture.task().join(".git"), "blob", b"good");
        let id = made(&fixture.task().join(".git"), "tree", &tree(&[("100644", "good", &id)]));
        let id = commit(&fixture.task().join(".git"), &id);
        if !name.starts_with("refs are a link") {
            write(&fixture.task().join(".git"), "refs/heads/good", format!("{id}\n").as_bytes());
            let report = fixture.import();
            assert_eq!(fixture.git("rev-parse good"), id, "{name}: {report:?}");
        }
    }
}

#[test]
fn trees_that_leave_their_folder_are_not_imported() {
    for name in [".git", ".GIT", "..", ".", "git~1", ".g\u{200c}it", "a/b", ""] {
        let report = unchanged_after(
            |git| {
                let blob = made(git, "blob", b"x");
                let id = made(git, "tree", &tree(&[("100644", name, &blob)]));
                let id = commit(git, &id);
                write(git, "refs/heads/evil", format!("{id}\n").as_bytes());
            },
            false,
            name,
        );
        assert_eq!(report.refs.len(), 1, "{name}: {report:?}");
    }
}

#[test]
fn objects_that_contradict_their_names_are_not_imported() {
    let attacks: [(&str, Attack); 6] = [
        ("another content", |git| {
            let id = "e".repeat(40);
            loose(git, &id, b"blob 1\0x");
            let tree = made(git, "tree", &tree(&[("100644", "a", &id)]));
            let id = commit(git, &tree);
            write(git, "refs/heads/evil", id.as_bytes());
        }),
        ("a commit with another content", |git| {
            let main = fs::read_to_string(git.join("refs/heads/main")).unwrap();
            let good = fs::read_to_string(git.join("refs/heads/side")).unwrap();
            let id = "d".repeat(40);
            let path = |id: &str| git.join(format!("objects/{}/{}", &id[..2], &id[2..]));
            fs::create_dir_all(path(&id).parent().unwrap()).unwrap();
            fs::copy(path(main.trim()), path(&id)).unwrap();
            write(git, "refs/heads/evil", id.as_bytes());
            write(git, "refs/heads/side", good.as_bytes());
        }),
        ("no zlib", |git| {
            write(git, &format!("objects/aa/{}", "a".repeat(38)), b"nonsense");
            write(git, "refs/heads/evil", &[b'a'; 40]);
        }),
        ("links to files of the host", |git| {
            fs::create_dir_all(git.join("objects/bb")).unwrap();
            symlink("/etc/passwd", git.join(format!("objects/bb/{}", "b".repeat(38)))).unwrap();
            write(git, "refs/heads/evil", &[b'b'; 40]);
        }),
        ("a size that is a lie", |git| {
            let id = "c".repeat(40);
            loose(git, &id, b"blob 99999999999999\0x");
            write(git, "refs/tags/evil", id.as_bytes());
        }),
        ("half of a history", |git| {
            let parent = "9".repeat(40);
            let blob = made(git, "blob", b"half");
            let id = made(git, "tree", &tree(&[("100644", "half", &blob)]));
            let text = format!(
                "tree {id}\nparent {parent}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx\n"
            );
            let id = made(git, "commit", text.as_bytes());
            write(git, "refs/heads/evil", id.as_bytes());
            write(git, "shallow", format!("{id}\n").as_bytes());
        }),
    ];
    for is_upper in [false, true] {
        for (name, attack) in attacks {
            let report = unchanged_after(attack, is_upper, name);
            assert!(report.is_empty() && report.refs.len() == 1, "{name}: {report:?}");
        }
    }
}

#[test]
fn failed_attempts_leave_nothing_in_the_quarantine() {
    let fixture = Fixture::new();
    let git = fixture.task().join(".git");
    for number in 0..8 {
        let blob = made(&git, "blob", format!("{number}").as_bytes());
        // Every other one is refused.
        let name = if number % 2 == 0 { "good" } else { ".." };
        let id = made(&git, "tree", &tree(&[("100644", name, &blob)]));
        let id = commit(&git, &id);
        write(&git, &format!("refs/heads/{number}"), format!("{id}\n").as_bytes());
    }
    let left = || {
        let mut names: Vec<String> = fs::read_dir(fixture.quarantine())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.retain(|name| name.starts_with("new-"));
        names
    };
    fixture
        .prepare_and(|import| {
            assert_eq!(left().len(), 1, "{:?}", left());
            import.commit().unwrap();
        })
        .unwrap();
    fixture.check();
    assert_eq!(fixture.git("for-each-ref --format=%(refname:short) refs/heads").lines().count(), 2 + 4);
}

#[test]
fn objects_folder_that_is_a_link_is_not_followed() {
    let report = unchanged_after(
        |git| {
            script(
                git,
                "git -C .. commit -q --allow-empty -m x; mv objects ../objects; ln -s ../objects objects; git -C .. status -s",
            );
        },
        false,
        "objects",
    );
    assert!(report.left.iter().any(|left| left.path == "objects"), "{report:?}");
}

/// A pack with one object that exists, followed by `body`.
fn pack(count: u32, body: &[u8]) -> Vec<u8> {
    let mut text = [b"PACK".as_slice(), &2_u32.to_be_bytes(), &count.to_be_bytes(), body].concat();
    let sum = Sha1::digest(&text);
    text.extend(sum);
    text
}

fn deflated(text: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

/// An entry's kind and size.
fn head(kind: u8, mut size: usize) -> Vec<u8> {
    let mut head = Vec::new();
    let mut byte = (kind << 4) | u8::try_from(size & 15).unwrap();
    size >>= 4;
    while size > 0 {
        head.push(byte | 0x80);
        byte = u8::try_from(size & 0x7f).unwrap();
        size >>= 7;
    }
    head.push(byte);
    head
}

fn varint(mut size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while size > 0x7f {
        bytes.push(u8::try_from(size & 0x7f).unwrap() | 0x80);
        size >>= 7;
    }
    bytes.push(u8::try_from(size).unwrap());
    bytes
}

/// A short pack whose last object has gigabytes: each object is sixteen times as large as the one
/// before.
fn bomb() -> Vec<u8> {
    let mut size = 1 << 16;
    let zeros = vec![0; size];
    let mut body = [head(3, size), deflated(&zeros)].concat();
    let mut distance = body.len();
    let mut count = 1;
    while size < 1 << 34 {
        // Copies of up to 0xffff bytes from the beginning, repeated as needed.
        let copies = (size / 0x8000) * 16;
        let mut delta = [varint(size), varint(size * 16)].concat();
        for _ in 0..copies {
            delta.extend([0x80 | 0x20, 0x80]);
        }
        if copies > 1 << 20 {
            break;
        }
        let mut offset = vec![u8::try_from(distance & 0x7f).unwrap()];
        let mut rest = distance >> 7;
        while rest > 0 {
            rest -= 1;
            offset.insert(0, u8::try_from(rest & 0x7f).unwrap() | 0x80);
            rest >>= 7;
        }
        let entry = [head(6, delta.len()), offset, deflated(&delta)].concat();
        distance = entry.len();
        body.extend(entry);
        size *= 16;
        count += 1;
    }
    pack(count, &body)
}

#[test]
fn packs_that_lie_or_burst_are_not_imported() {
    let good = pack(1, &[head(3, 4), deflated(b"good")].concat());
    let mut torn = good.clone();
    let last = torn.len() - 1;
    torn[last] ^= 1;
    let cases: [(&str, Vec<u8>); 5] = [
        ("a wrong sum", torn),
        ("nothing", Vec::new()),
        ("more objects than there are", pack(u32::MAX, b"")),
        ("cut off", good[..good.len() / 2].to_vec()),
        ("a bomb", bomb()),
    ];
    for (name, text) in cases {
        let mut fixture = Fixture::new();
        fixture.limits = Limits { memory: 512 << 20, ..Limits::default() };
        let git = fixture.task().join(".git");
        write(&git, "objects/pack/pack-aaaa.pack", &text);
        write(&git, "objects/pack/pack-aaaa.idx", b"x");
        write(&git, "refs/tags/evil", &[b'a'; 40]);
        fixture.script("git commit -q --allow-empty -m good 2>/dev/null || true");
        let before = files(&fixture.common());
        let report = fixture.import();
        assert!(
            report.left.iter().any(|left| left.path == "objects/pack/pack-aaaa.pack"),
            "{name}: {report:?}"
        );
        let after = files(&fixture.common());
        assert!(before.keys().all(|path| after.contains_key(path)), "{name}");
        assert!(!fixture.common().join("refs/tags/evil").exists(), "{name}");
    }
}

#[test]
fn exceeding_a_limit_is_an_error_and_nothing_is_imported() {
    let attacks: [(&str, Attack, Limits); 4] = [
        (
            "packed-refs of 100 MB",
            |git| {
                let id = fs::read_to_string(git.join("refs/heads/main")).unwrap();
                let line = |number: u32| format!("{} refs/heads/{number:060}\n", id.trim());
                let text: String = (0..900_000).map(line).collect();
                write(git, "packed-refs", text.as_bytes());
            },
            Limits::default(),
        ),
        (
            "200,000 refs",
            |git| {
                let id = fs::read_to_string(git.join("refs/heads/main")).unwrap();
                let line = |number: u32| format!("{} refs/tags/{number}\n", id.trim());
                let text: String = (0..200_000).map(line).collect();
                write(git, "packed-refs", text.as_bytes());
            },
            Limits { refs: 199_999, ..Limits::default() },
        ),
        (
            "many objects",
            |git| {
                for number in 0..200 {
                    made(git, "blob", format!("{number}").as_bytes());
                }
                script(git, "git -C .. commit -q --allow-empty -m x");
            },
            Limits { object_files: 100, ..Limits::default() },
        ),
        (
            "large objects",
            |git| {
                write(git, "objects/pack/pack-bbbb.pack", &vec![0; 2 << 20]);
                script(git, "git -C .. commit -q --allow-empty -m x");
            },
            Limits { object_bytes: 1 << 20, ..Limits::default() },
        ),
    ];
    for (name, attack, limits) in attacks {
        let mut fixture = Fixture::new();
        fixture.limits = limits;
        attack(&fixture.task().join(".git"));
        let before = files(&fixture.common());
        match fixture.import_with(&mut |_| true) {
            Err(Error::TooMuch { .. }) => {}
            // A file that is too large to read is odd.
            Ok(report) => {
                assert!(report.is_empty() && report.left[0].path == "packed-refs", "{name}: {report:?}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
        assert!(files(&fixture.common()) == before, "{name}");
    }
}

#[test]
fn index_that_git_reads_differently_is_not_imported_and_the_rest_is() {
    let fixture = Fixture::new();
    fixture.script("ln -s a .gitmoduleX; git add .; echo c > c; git add c; git commit -qm c; git branch new; echo d > d; git add d");
    let path = fixture.task().join(".git/index");
    let mut text = fs::read(&path).unwrap();
    let at = text.windows(12).position(|name| name == b".gitmoduleX\0").unwrap();
    text[at + 10] = b's';
    fs::write(path, text).unwrap();
    let before = git(&fixture.host(), "ls-files -s");
    let report = fixture.import();
    assert!(!report.index && report.left.iter().any(|left| left.path == "index"), "{report:?}");
    assert_eq!(git(&fixture.host(), "ls-files -s"), before);
    assert_eq!(fixture.git("rev-parse new"), git(&fixture.task(), "rev-parse new").trim());
}

#[test]
fn index_with_a_path_merged_and_in_conflict_is_not_imported() {
    let fixture = Fixture::new();
    fixture.script("git rm -q --cached b; id=$(git rev-parse HEAD:b); for stage in 1 2 3; do printf '100644 %s %s\\tx\\n' $id $stage; done | git update-index --index-info; printf '100644 %s 0\\ty\\n' $id | git update-index --index-info");
    let path = fixture.task().join(".git/index");
    let mut text = fs::read(&path).unwrap();
    // Rename `y`, the next entry, which is merged, to `x`.
    let at = text.windows(3).rposition(|name| name == b"\x01y\0").unwrap();
    text[at + 1] = b'x';
    fs::write(path, text).unwrap();
    let before = git(&fixture.host(), "ls-files -s");
    let report = fixture.import();
    let left = report.left.iter().find(|left| left.path == "index").unwrap();
    assert!(!report.index && left.why.contains("both as merged"), "{report:?}");
    assert_eq!(git(&fixture.host(), "ls-files -s"), before);
}

#[test]
fn new_names_that_a_prompt_would_run_or_nobody_sees_are_not_imported() {
    let names = ["$(touch${IFS}ran)", "a`ran`", "ma\u{200b}in"];
    for name in names {
        for head in [false, true] {
            let report = unchanged_after(
                |git| {
                    if !head {
                        let id = fs::read(git.join("refs/heads/main")).unwrap();
                        write(git, &format!("refs/heads/{name}"), &id);
                        write(git, &format!("refs/tags/{name}"), &id);
                    }
                    // A branch that does not exist is one without commits.
                    write(git, "HEAD", format!("ref: refs/heads/{name}\n").as_bytes());
                },
                false,
                name,
            );
            assert!(report.left.iter().any(|left| left.path == "HEAD"), "{name}: {report:?}");
            assert_eq!(report.refs.len(), if head { 0 } else { 2 }, "{name}: {report:?}");
        }
    }
    // The host's own names remain usable.
    let fixture = Fixture::with("sha1", |host| {
        for name in names {
            script(host, &format!("git branch '{name}'"));
        }
    });
    fixture.script(
        "git switch -q '$(touch${IFS}ran)'; git commit -q --allow-empty -m x; git branch -D 'a`ran`'",
    );
    fixture.import();
    assert_eq!(fixture.host_state(), fixture.task_state());
}

#[test]
fn configuration_of_a_task_that_is_too_large_is_not_imported() {
    for (text, why) in [
        (format!("[a]\n{}", "#".repeat(1 << 20)), "it is too large"),
        (format!("[a]\n{}", "b\n".repeat(10_001)), "it has too many settings"),
        (format!("[a \"{}\"]\n{}", "n".repeat(1 << 19), "b\n".repeat(1000)), "it has too many settings"),
    ] {
        let report = unchanged_after(|git| write(git, "config", text.as_bytes()), false, why);
        let left: Vec<(&str, &str)> =
            report.left.iter().map(|left| (left.path.as_str(), left.why.as_str())).collect();
        assert_eq!(left, [("config", why)], "{report:?}");
    }
    // The host's own configuration still applies, also in a copy.
    let fixture = Fixture::with("sha1", |host| {
        let path = host.join(".git/config");
        let text = fs::read_to_string(&path).unwrap() + &"# x\n".repeat(1 << 19);
        fs::write(path, text).unwrap();
    });
    fixture.script("git commit -q --allow-empty -m x");
    let report = fixture.import();
    assert!(report.left.is_empty() && report.refs.len() == 1, "{report:?}");
}

#[test]
fn programs_configured_by_the_task_or_the_host_do_not_run() {
    let fixture = Fixture::with("sha1", |host| {
        for name in
            ["reference-transaction", "post-index-change", "post-checkout", "post-rewrite", "pre-auto-gc"]
        {
            let path = host.join(".githooks").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\ntouch ran\n").unwrap();
        }
        script(host, "chmod +x .githooks/*");
        script(
            host,
            "git config core.hooksPath $PWD/.githooks; git config core.fsmonitor \"touch $PWD/ran; false\"",
        );
        script(
            host,
            "git config filter.x.clean \"touch $PWD/ran; cat\"; echo '* filter=x' > .git/info/attributes; git config gc.auto 1; git config gpg.program \"$PWD/.githooks/post-checkout\"",
        );
    });
    let _ = fs::remove_file(fixture.host().join("ran"));
    fixture.script("rm -f ran; git -c core.hooksPath= -c core.fsmonitor=false switch -qc new; echo x > c; git -c core.hooksPath= -c core.fsmonitor=false -c filter.x.clean=cat add c; git -c core.hooksPath= -c core.fsmonitor=false commit -qm c; git -c core.hooksPath= -c core.fsmonitor=false -c filter.x.clean=cat stash list");
    let _ = fs::remove_file(fixture.host().join("ran"));
    fixture.import_with(&mut |_| true).unwrap();
    assert!(!fixture.host().join("ran").exists());
    assert_eq!(fs::read_to_string(fixture.common().join("HEAD")).unwrap(), "ref: refs/heads/new\n");
    let _ = git(&fixture.host(), "-c core.fsmonitor=false rev-parse new");
}
