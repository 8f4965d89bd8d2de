//! Tests of everything before a bundle's command is executed.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use sandbox::host_path::Resolver;
use sandbox_bundle::{Digest, Settings, Snapshot, Task, Variable, VariableName};
use sandbox_files::tree::Tree;

use super::*;

/// A folder with a bundle.
struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(fixture.at("project")).unwrap();
        fs::write(fixture.at("project/main.c"), "int main;").unwrap();
        symlink("main.c", fixture.at("project/link")).unwrap();
        fixture.pack(&["main.c", "link"]);
        fixture
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn pack(&self, paths: &[&str]) {
        let name = |name: &str| VariableName::try_from(name.to_owned()).unwrap();
        self.pack_with(paths, &[(name("A"), Variable::Required(name("NEEDED")))]);
    }

    fn pack_with(&self, paths: &[&str], variables: &[(VariableName, Variable)]) {
        let settings = Settings {
            task: Task::Command(vec!["make".to_owned()]),
            working_dir: "/workspace".to_owned(),
            image: "x".to_owned(),
            variables: variables.iter().cloned().collect(),
            ..Settings::default()
        };
        let tree = Tree::open(&self.at("project")).unwrap();
        let snapshot = Snapshot::read(&tree, paths.iter().map(PathBuf::from)).unwrap();
        snapshot.write(&mut fs::File::create(self.at("job.bundle")).unwrap(), &settings).unwrap();
    }

    /// The bundle on a host where tasks can write to `writable`.
    fn found(&self, writable: &[&str]) -> (Found, Bundle) {
        let resolver = Resolver::new(writable.iter().map(|path| self.at(path)));
        let found = resolver.find(&self.at("job.bundle")).unwrap();
        let bundle = bundle::read(&found).unwrap();
        (found, bundle)
    }
}

#[test]
fn bundle_that_somebody_else_can_have_written_or_that_takes_variables_must_be_named_by_its_digest() {
    let fixture = Fixture::new();
    let trust = |digest: &Digest| Trust::Digest(format!("sha256:{digest}").parse().unwrap());
    let demand = |writable: &[&str], trust: Option<&Trust>| {
        let (found, bundle) = fixture.found(writable);
        demand_trust(&found, &bundle, trust).map_err(|failure| failure.to_string())
    };
    let other = trust(&Digest::of(b"other"));
    let demanded = |writable: &[&str], problem: &str| {
        let digest = fixture.found(&[]).1.digest;
        for trust in [None, Some(&Trust::Recorded), Some(&Trust::Now)] {
            let error = demand(writable, trust).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert_eq!(demand(writable, Some(&trust(&digest))), Ok(()));
        let error = demand(writable, Some(&other)).unwrap_err();
        assert!(error.contains("not the one in --trust"), "{error}");
    };
    demanded(&[], "takes variables of this host: NEEDED");
    fixture.pack_with(&["main.c", "link"], &[]);
    for trust in [None, Some(&Trust::Recorded), Some(&Trust::Now)] {
        assert_eq!(demand(&["project"], trust), Ok(()), "the control");
    }
    demanded(&["."], "in a folder that tasks can write to");
    fs::set_permissions(fixture.at("job.bundle"), fs::Permissions::from_mode(0o646)).unwrap();
    demanded(&[], "written by another user");
}

#[tokio::test]
async fn tree_is_unpacked_once_and_removed_when_no_run_uses_it_for_long() {
    let fixture = Fixture::new();
    let (found, bundle) = fixture.found(&[]);
    let trees = fixture.at("trees");
    // Left by a process that was killed.
    fs::create_dir_all(trees.join("new-1/main.c")).unwrap();
    let lock = unpacked(&found, &bundle, &trees).await.unwrap();
    let tree = tree_of(&bundle, &trees);
    assert_eq!(fs::read_to_string(tree.join("main.c")).unwrap(), "int main;");
    assert_eq!(fs::read_link(tree.join("link")).unwrap(), Path::new("main.c"));
    assert!(!trees.join("new-1").exists());
    // The mark shows that the tree is the same one.
    fs::write(tree.join("mark"), "").unwrap();
    drop(unpacked(&found, &bundle, &trees).await.unwrap());
    assert!(tree.join("mark").exists());
    let use_at = |age: Duration| {
        let file = fs::File::options().write(true).open(lock_of(&tree)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    };
    use_at(KEPT * 2);
    prune(&trees).unwrap();
    assert!(tree.exists(), "a run uses it");
    drop(lock);
    use_at(KEPT / 2);
    prune(&trees).unwrap();
    assert!(tree.exists(), "it was used");
    use_at(KEPT * 2);
    prune(&trees).unwrap();
    assert_eq!(names(&trees), [LOCK]);
}

#[tokio::test]
async fn bundle_that_changes_after_it_was_verified_is_not_unpacked() {
    let fixture = Fixture::new();
    let (found, bundle) = fixture.found(&[]);
    let trees = fixture.at("trees");
    fixture.pack(&["main.c"]);
    // The same file has other bytes now.
    assert!(unpacked(&found, &bundle, &trees).await.is_err());
    assert!(!tree_of(&bundle, &trees).exists());
    assert!(names(&trees).iter().all(|name| name.ends_with(LOCK)), "{:?}", names(&trees));
    fixture.pack(&["main.c", "link"]);
    assert!(unpacked(&found, &bundle, &trees).await.is_ok(), "the control");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn folders_of_killed_runs_are_removed_and_those_of_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("copies");
    let create = async |name: &str| {
        let copy = CopyFolder::create(&all, all.join(name)).await.unwrap();
        fs::create_dir(CopyFolder::layer(&copy.path)).unwrap();
        copy
    };
    let (killed, other, kept) = (create("killed").await, create("other").await, create("kept").await);
    drop(killed);
    assert_eq!(kept.keep().unwrap(), all.join("kept"));
    let own = create("own").await;
    let printer = Printer::new(0, true);
    own.remove_dead(printer);
    let is_there = || ["killed", "other", "kept", "own"].map(|name| all.join(name).exists());
    assert_eq!(is_there(), [false, true, true, true]);
    own.remove(printer);
    assert_eq!(is_there(), [false, true, true, false]);
    drop(other);
}
