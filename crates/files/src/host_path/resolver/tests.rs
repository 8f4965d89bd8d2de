//! Trees that tasks could leave.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;

use super::*;

/// A folder `tree` that tasks can write, next to one of the machine's own.
fn machine() -> (tempfile::TempDir, Resolver) {
    let machine = tempfile::tempdir().unwrap();
    let at = |path: &str| machine.path().join(path);
    fs::create_dir_all(at("tree/sub")).unwrap();
    fs::create_dir_all(at("own")).unwrap();
    fs::write(at("own/secret"), "secret").unwrap();
    fs::write(at("tree/file"), "file").unwrap();
    let resolver = Resolver::new([at("tree")]);
    (machine, resolver)
}

#[test]
fn links_are_followed_above_writable_folders_and_never_inside() {
    let (machine, resolver) = machine();
    let at = |path: &str| machine.path().join(path);
    symlink("tree", at("to-tree")).unwrap();
    symlink("own", at("to-own")).unwrap();
    symlink("../own", at("tree/out")).unwrap();
    symlink("file", at("tree/link")).unwrap();
    for (path, expected) in [
        ("own/secret", Some(false)),
        ("to-own/secret", Some(false)),
        ("tree/file", Some(true)),
        ("to-tree/file", Some(true)),
        ("to-tree/sub/../file", Some(true)),
        ("tree/../own/secret", Some(false)),
        ("tree/out/secret", None),
        ("to-tree/out", None),
        ("tree/link", None),
        ("tree/missing", None),
        ("own/secret/x", None),
    ] {
        let found = resolver.find(&at(path));
        assert_eq!(found.as_ref().ok().map(Found::is_untrusted), expected, "{path}: {found:?}");
    }
    let real = machine.path().canonicalize().unwrap();
    assert_eq!(resolver.find(&at("to-tree/sub/..")).unwrap().path(), real.join("tree"));
    let error = resolver.find(&at("tree/out/secret")).unwrap_err();
    assert!(matches!(error.problem(), PathProblem::Link { link } if link.ends_with("tree/out")), "{error:?}");
    assert_eq!(error.path(), at("tree/out/secret"));
    assert!(resolver.find(&at("tree/missing")).unwrap_err().is_not_found());
    // The control: without a task, it is the machine's own link.
    assert!(Resolver::default().find(&at("tree/out/secret")).is_ok());
}

#[test]
fn tree_identity_does_not_depend_on_its_name() {
    let (machine, resolver) = machine();
    fs::rename(machine.path().join("tree"), machine.path().join("moved")).unwrap();
    let found = resolver.find(&machine.path().join("moved/file")).unwrap();
    assert!(found.is_untrusted());
    let single = Resolver::new([machine.path().join("own/secret")]);
    assert!(single.find(&machine.path().join("own/secret")).unwrap().is_untrusted());
}

#[test]
fn only_regular_files_are_opened_without_waiting() {
    let (machine, resolver) = machine();
    let at = |path: &str| machine.path().join(path);
    rustix::fs::mknodat(CWD, at("tree/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("tree/socket")).unwrap();
    for path in ["tree/pipe", "tree/socket", "tree/sub"] {
        let error = resolver.read(&at(path), 10).unwrap_err();
        assert!(matches!(error.problem(), PathProblem::NotRegular), "{path}: {error:?}");
        assert!(resolver.append(&at(path), 0o600).is_err(), "{path}");
    }
    assert!(resolver.read(&at("tree/none"), 10).unwrap().is_none());
    assert_eq!(resolver.read(&at("tree/file"), 4).unwrap().unwrap().1, b"file");
    let error = resolver.read(&at("tree/file"), 3).unwrap_err();
    assert!(matches!(error.problem(), PathProblem::TooLarge { limit: 3 }));
}

#[test]
fn append_writes_to_the_named_file_only() {
    let (machine, resolver) = machine();
    let at = |path: &str| machine.path().join(path);
    for text in ["one ", "two"] {
        resolver.append(&at("tree/log"), 0o600).unwrap().write_all(text.as_bytes()).unwrap();
    }
    assert_eq!(fs::read_to_string(at("tree/log")).unwrap(), "one two");
    symlink(at("own/secret"), at("tree/to-secret")).unwrap();
    symlink(at("own/new"), at("tree/to-new")).unwrap();
    fs::hard_link(at("tree/file"), at("tree/second")).unwrap();
    for path in ["tree/to-secret", "tree/to-new", "tree/second"] {
        assert!(resolver.append(&at(path), 0o600).is_err(), "{path}");
    }
    assert!(!at("own/new").exists());
    let tree = resolver.find(&at("tree")).unwrap();
    let name = |name: &'static str| OsStr::new(name);
    tree.create_new(name("new"), 0o600).unwrap();
    for taken in ["new", "to-secret", "to-new", "sub"] {
        assert!(tree.create_new(name(taken), 0o600).is_err(), "{taken}");
    }
    tree.rename(name("new"), name("to-secret")).unwrap();
    tree.remove(name("to-new")).unwrap();
    assert_eq!(fs::read_to_string(at("own/secret")).unwrap(), "secret");
    assert!(tree.child(name("to-secret")).unwrap().is_file());
    assert!(tree.child(name("..")).is_err() && tree.child(name("sub/x")).is_err());
    assert_eq!(tree.names().unwrap(), ["file", "log", "second", "sub", "to-secret"]);
}

#[test]
fn folders_are_created_at_their_path_and_through_no_link() {
    let (machine, resolver) = machine();
    let at = |path: &str| machine.path().join(path);
    symlink("../own", at("tree/out")).unwrap();
    symlink("../own/made", at("tree/dangling")).unwrap();
    for path in ["tree/a/b/c", "tree/sub", "own/x"] {
        assert!(resolver.make_folder(&at(path)).unwrap().is_folder(), "{path}");
        assert!(at(path).is_dir(), "{path}");
    }
    symlink("no/such/folder", at("own/nowhere")).unwrap();
    assert!(resolver.make_folder(&at("own/nowhere/x")).is_err());
    fs::remove_file(at("own/nowhere")).unwrap();
    for path in ["tree/out/x", "tree/out", "tree/dangling", "tree/dangling/x", "tree/file/x"] {
        assert!(resolver.make_folder(&at(path)).is_err(), "{path}");
    }
    let mut left: Vec<_> = fs::read_dir(at("own")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["secret", "x"]);
    // The control: without a task, the link is followed.
    assert!(Resolver::default().make_folder(&at("tree/out/y")).is_ok());
}

#[test]
fn link_that_leads_to_itself_is_an_error() {
    let (machine, resolver) = machine();
    symlink("loop", machine.path().join("loop")).unwrap();
    assert!(resolver.find(&machine.path().join("loop")).is_err());
}

#[test]
fn folder_contains_itself_and_all_below_it() {
    let (machine, resolver) = machine();
    let found = |path: &str| resolver.find(&machine.path().join(path)).unwrap();
    let root = resolver.find(Path::new("/")).unwrap();
    for path in ["own", "own/secret"] {
        assert!(found("own").contains(&found(path)).unwrap(), "{path}");
        assert!(root.contains(&found(path)).unwrap(), "{path}");
        assert!(!found("tree").contains(&found(path)).unwrap(), "{path}");
    }
}
