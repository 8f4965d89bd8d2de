//! Reports, removed permissions, and the quarantine of many or large files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;

use super::*;

#[test]
fn sockets_are_covered_and_those_that_appear_are_reported() {
    let fixture = Fixture::new();
    let _before = UnixListener::bind(fixture.tree().join("sub/.overmind.sock")).unwrap();
    let (mounts, watch) = fixture.begin(Protection::default());
    let covers: Vec<&str> = mounts
        .iter()
        .filter(|mount| mount.host_path() == Path::new("/dev/null"))
        .map(Mount::container_path)
        .collect();
    assert_eq!(covers, ["/workspace/sub/.overmind.sock"]);
    let _new = UnixListener::bind(fixture.tree().join("new.sock")).unwrap();
    let tampered = watch.end(|| {});
    assert_eq!(fixture.names(&tampered), ["new.sock"]);
    assert!(tampered[0].is_left_in_place() && fixture.tree().join("new.sock").exists());

    let read_only = Mount::read_only_at(fixture.tree(), "/workspace").protected(Protection::default());
    let quarantine = fixture.folder.path().join("quarantine");
    let (mounts, watch) = Watch::begin(vec![read_only], quarantine, &mut Views::new(None)).unwrap();
    assert!(mounts.len() == 3 && watch.is_empty(), "{mounts:?}");
}

#[test]
fn path_that_engines_cannot_mount_refuses_the_run() {
    let fixture = Fixture::new();
    let repository = fixture.tree().join(OsStr::from_bytes(b"odd\xff")).join(".git");
    for folder in ["objects", "refs", "hooks"] {
        fs::create_dir_all(repository.join(folder)).unwrap();
    }
    fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let mount = Mount::read_write(fixture.tree(), "/workspace").protected(Protection::default());
    let quarantine = fixture.folder.path().join("quarantine");
    let error = Watch::begin(vec![mount], quarantine, &mut Views::new(None)).unwrap_err();
    assert!(
        error.to_string().starts_with("failed to guard `") && error.to_string().contains("odd"),
        "{error}"
    );
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert!(source.is_some_and(|source| source.contains("rename it")));
}

#[test]
fn privilege_bits_are_removed() {
    let fixture = Fixture::new();
    fixture.write("before", "x");
    fixture.close("before", 0o4755);
    fixture.write("shared/x", "x");
    fixture.close("shared", 0o2775);
    // tidy: sleep: a change is known by its time, which must differ.
    std::thread::sleep(2 * TICK);
    let (_, watch) = fixture.begin(Protection::default());
    fixture.write("x", "x");
    fixture.close("x", 0o4755);
    fixture.write("y", "x");
    fixture.close("y", 0o2711);
    fixture.write("shared/inner/x", "x");
    fixture.write("group/x", "x");
    fixture.close("group", 0o2755);
    let tampered = watch.end(|| {});
    assert_eq!(fixture.names(&tampered), ["group", "x", "y"]);
    let mode = |name: &str| fs::metadata(fixture.tree().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("x"), mode("y"), mode("group")), (0o755, 0o711, 0o755));
    assert_eq!((mode("before"), mode("shared"), mode("shared/inner") & 0o2000), (0o4755, 0o2775, 0o2000));
}

#[test]
fn tool_inputs_changed_by_everyday_work_remain_and_are_reported() {
    let fixture = Fixture::new();
    fixture.write(".npmrc", "a");
    fixture.write("AGENTS.md", "a");
    fixture.write(".github/workflows/ci.yml", "a");
    let (_, watch) = fixture.begin(Protection::default());
    fixture.write(".npmrc", "b");
    fixture.write("AGENTS.md", "a");
    fixture.write(".github/workflows/new.yml", "b");
    fixture.write(".venv/lib/python3.12/site-packages/x.pth", "import x");
    fixture.write("models/x.pth", "x");
    fixture.write("node_modules/x/.npmrc", "x");
    let tampered = watch.end(|| {});
    let expected = [".github/workflows/new.yml", ".npmrc", ".venv/lib/python3.12/site-packages/x.pth"];
    assert_eq!(fixture.names(&tampered), expected);
    assert!(tampered.iter().all(TamperedPath::is_left_in_place));
    assert_eq!(fixture.read(".npmrc").as_deref(), Some("b"));
}

#[test]
fn tampered_paths_are_sorted_newest_first() {
    let fixture = Fixture::new();
    let (_, watch) = fixture.begin(Protection::default());
    for name in ["b/.envrc", "c/.envrc", "a/.envrc"] {
        fixture.write(name, "x");
        // tidy: sleep: a change is known by its time, which must differ.
        std::thread::sleep(TICK);
    }
    let tampered = watch.end(|| {});
    let names: Vec<&Path> =
        tampered.iter().map(|thing| thing.path_in(&fixture.folder.path().join("tree"))).collect();
    assert_eq!(names, ["a/.envrc", "c/.envrc", "b/.envrc"].map(Path::new));
}

#[test]
fn names_in_quarantine_continue_the_count() {
    let fixture = Fixture::new();
    let prefix = "x".repeat(120);
    let (_, watch) = fixture.begin(Protection::default());
    for number in 0..300 {
        fixture.write(&format!("{prefix}{number}/.envrc"), "x");
    }
    let tampered = watch.end(|| {});
    let mut places: Vec<&Path> = tampered.iter().filter_map(|thing| thing.moved_to.as_deref()).collect();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), 300);
}
