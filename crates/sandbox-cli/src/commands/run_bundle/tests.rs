//! Tests of everything before a bundle's command is executed.

use std::os::unix::fs::symlink;

use sandbox::host_path::Resolver;
use sandbox_bundle::{Settings, Snapshot, Variable, VariableName};
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
        let settings = Settings {
            command: vec!["make".to_owned()],
            working_dir: "/workspace".to_owned(),
            image: "x".to_owned(),
            variables: [(name("A"), Variable::Required(name("NEEDED")))].into(),
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
fn bundle_that_a_task_can_have_written_must_be_named_by_its_digest() {
    let fixture = Fixture::new();
    let trust = |digest: &Digest| Trust::Digest(format!("sha256:{digest}").parse().unwrap());
    let demand = |writable: &[&str], trust: Option<&Trust>| {
        let (found, bundle) = fixture.found(writable);
        demand_trust(&found, &bundle.digest, trust).map_err(|failure| failure.to_string())
    };
    let digest = fixture.found(&[]).1.digest;
    let other = trust(&Digest::of(b"other"));
    for trust in [None, Some(&Trust::Recorded), Some(&Trust::Now)] {
        assert_eq!(demand(&["project"], trust), Ok(()), "the control");
        let error = demand(&["."], trust).unwrap_err();
        assert!(error.contains("in a folder that tasks can write to"), "{error}");
    }
    for writable in [".", "project"] {
        assert_eq!(demand(&[writable], Some(&trust(&digest))), Ok(()));
        let error = demand(&[writable], Some(&other)).unwrap_err();
        assert!(error.contains("not the one in --trust"), "{error}");
    }
}

#[test]
fn missing_variable_is_an_error_before_anything_is_unpacked() {
    let (_, bundle) = Fixture::new().found(&[]);
    let demand = |environment| demand_variables(&bundle, &environment).map_err(|failure| failure.to_string());
    assert_eq!(demand(Environment::from([("NEEDED", "x")])), Ok(()), "the control");
    let error = demand(Environment::from([("A", "x")])).unwrap_err();
    assert_eq!(error, "the bundle needs variables that are not set: NEEDED");
}

#[tokio::test]
async fn tree_is_unpacked_once() {
    let fixture = Fixture::new();
    let (found, bundle) = fixture.found(&[]);
    let trees = fixture.at("trees");
    // Left by a process that was killed.
    fs::create_dir_all(trees.join("new/main.c")).unwrap();
    let tree = unpacked(&found, &bundle, &trees).await.unwrap();
    assert_eq!(fs::read_to_string(tree.join("main.c")).unwrap(), "int main;");
    assert_eq!(fs::read_link(tree.join("link")).unwrap(), Path::new("main.c"));
    assert!(!trees.join("new").exists());
    // The mark shows that the tree is the same one.
    fs::write(tree.join("mark"), "").unwrap();
    assert_eq!(unpacked(&found, &bundle, &trees).await.unwrap(), tree);
    assert!(tree.join("mark").exists());
}

#[tokio::test]
async fn bundle_that_changes_after_it_was_verified_is_not_unpacked() {
    let fixture = Fixture::new();
    let (found, bundle) = fixture.found(&[]);
    let trees = fixture.at("trees");
    fixture.pack(&["main.c"]);
    // The same file has other bytes now.
    assert!(unpacked(&found, &bundle, &trees).await.is_err());
    let names: Vec<_> = fs::read_dir(&trees).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [LOCK]);
    fixture.pack(&["main.c", "link"]);
    assert!(unpacked(&found, &bundle, &trees).await.is_ok(), "the control");
}

#[tokio::test]
async fn folders_of_killed_runs_are_removed_and_those_of_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("results");
    let [killed, other, own] =
        [CopyFolder::create(&all).await, CopyFolder::create(&all).await, CopyFolder::create(&all).await]
            .map(Result::unwrap);
    for copy in [&killed, &other, &own] {
        fs::create_dir(copy.copy()).unwrap();
    }
    let paths = [killed.path.clone(), other.path.clone(), own.path.clone()];
    drop(killed);
    own.remove(Printer::new(0, true)).await;
    assert_eq!(paths.map(|path| path.exists()), [false, true, false]);
    drop(other);
}
