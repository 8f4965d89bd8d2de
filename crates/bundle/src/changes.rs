//! The changes of a task to the tree of its bundle.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Kind, Tree};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::archive::Reader;
use crate::canonical;
use crate::digest::HashedInput;
use crate::entry::entry;
use crate::error::InvalidBundle;
use crate::listing::{ENTRIES, Entry, Listing, too_many};
use crate::path::TreePath;
use crate::record::Content;
use crate::unpack::Unpacked;

/// The name of the first entry of such an archive, and its maximum size.
pub(crate) const CHANGES: &str = "changes.json";
const BYTES: u64 = 256 << 20;

/// The paths that a task changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Those that are gone, with everything in them.
    #[serde(deserialize_with = "removed")]
    pub removed: BTreeSet<TreePath>,
    /// Those that are new or have another content, kind or permission, in the folders that contain
    /// them.
    pub tree: Listing,
}

impl Changes {
    /// Reads an archive of changes to its end.
    ///
    /// # Errors
    ///
    /// If any byte differs from those that were written, a removed path is in no folder that is there,
    /// or reading fails.
    pub fn read(input: impl Read) -> Result<Self, InvalidBundle> {
        let mut archive = Reader(input);
        let changes = Self::begin(&mut archive)?;
        archive.blobs(&changes.tree, |_| Ok(io::sink()))?;
        Ok(changes)
    }

    /// The same for an archive with this `content`, and creates the folder `layer`, which has the changes as the upper layer of an overlay
    /// over `host`: a device in the place of each removed path. Its parent must be a folder that nobody
    /// else writes to. A file of `host` keeps its permissions, except for that to execute. After an
    /// error, a part of it may exist.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), if `layer` exists or cannot be written, and if the files would take
    /// more than half of the free space.
    pub fn unpack(
        input: impl Read,
        content: &Content,
        layer: &Path,
        host: &Tree,
    ) -> Result<Self, InvalidBundle> {
        let mut input = HashedInput::new(input);
        let mut archive = Reader(&mut input);
        let changes = Self::begin(&mut archive)?;
        let failed = || InvalidBundle::unpacking(CHANGES);
        let unpacked = Unpacked::begin(&changes.tree, layer).map_err(failed())?;
        archive.blobs(&changes.tree, |digest| unpacked.blob(digest))?;
        content.demand(input.finish(), CHANGES)?;
        unpacked.finish(&changes.tree, None).map_err(failed())?;
        changes.finish(layer, host).map_err(failed())?;
        Ok(changes)
    }

    fn begin(archive: &mut Reader<impl Read>) -> Result<Self, InvalidBundle> {
        let bytes = archive.whole(CHANGES, BYTES)?;
        let invalid = |problem: String| InvalidBundle::new(CHANGES, problem);
        let changes: Self = canonical::from_bytes(&bytes).map_err(invalid)?;
        changes.check()?;
        Ok(changes)
    }

    fn finish(&self, layer: &Path, host: &Tree) -> io::Result<()> {
        let tree = Tree::open(layer)?;
        for path in &self.removed {
            tree.hide(path.as_path())?;
        }
        for (path, entry) in self.tree.entries() {
            let Entry::File { executable, .. } = entry else { continue };
            // An error is that of a path that changed on the host: it keeps the usual permissions.
            if let Ok(Some(before)) = host.facts(path.as_path())
                && before.kind == Kind::File
            {
                let mode = before.mode & 0o777 | 0o600;
                let mode = if *executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
                fs::set_permissions(layer.join(path.as_path()), Permissions::from_mode(mode))?;
            }
        }
        Ok(())
    }

    /// The paths of which `host` has neither the version in `base`, the tree of the bundle, nor the one
    /// here. A folder that is removed or replaced counts with everything in it. What cannot be read
    /// counts, too.
    #[must_use]
    pub fn conflicts(&self, base: &Listing, host: &Tree) -> BTreeSet<PathBuf> {
        let there = self.tree.entries().map(|(path, entry)| (path, Some(entry)));
        let removed = self.removed.iter().map(|path| (path, None));
        let all = there.chain(removed).filter(|(path, new)| is_conflict(path, *new, base, host));
        all.map(|(path, _)| path.as_path().to_owned()).collect()
    }

    /// The bytes of the first entry, unless a reader would refuse them.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, InvalidBundle> {
        self.check()?;
        let bytes = canonical::to_bytes(self);
        let bytes = bytes.map_err(|error| InvalidBundle::new(CHANGES, error.to_string()))?;
        if bytes.len() as u64 > BYTES {
            return Err(InvalidBundle::new(CHANGES, format!("would have more than {BYTES} bytes")));
        }
        Ok(bytes)
    }

    fn check(&self) -> Result<(), InvalidBundle> {
        if self.removed.len() > ENTRIES {
            return Err(InvalidBundle::new(CHANGES, too_many()));
        }
        let invalid = |path, problem| Err(InvalidBundle::new(CHANGES, format!("lists `{path}` {problem}")));
        for path in &self.removed {
            if self.tree.entry(path).is_some() {
                return invalid(path, "as removed and as there");
            }
            if path.parent().is_some_and(|folder| self.tree.entry(&folder) != Some(&Entry::Folder)) {
                return invalid(path, "as removed from a folder that is not listed");
            }
        }
        Ok(())
    }
}

/// Reads a list of paths, which may be long.
fn removed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<TreePath>, D::Error> {
    struct Paths;

    impl<'de> Visitor<'de> for Paths {
        type Value = BTreeSet<TreePath>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of paths")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut paths = BTreeSet::new();
            while let Some(path) = list.next_element()? {
                if paths.len() == ENTRIES {
                    return Err(A::Error::custom(too_many()));
                }
                paths.insert(path);
            }
            Ok(paths)
        }
    }

    deserializer.deserialize_seq(Paths)
}

fn is_conflict(path: &TreePath, new: Option<&Entry>, base: &Listing, host: &Tree) -> bool {
    let Ok(now) = entry(host, path.as_path()) else { return true };
    match now {
        now if now.as_ref() == new => false,
        None => base.entry(path).is_some(),
        Some(now) if base.entry(path) != Some(&now) => true,
        Some(Entry::Folder) => !is_within(base, host, path),
        Some(Entry::File { .. } | Entry::Link(_)) => false,
    }
}

/// Whether `folder` of `host` has only entries that are the same in `base`.
fn is_within(base: &Listing, host: &Tree, folder: &TreePath) -> bool {
    let Ok(names) = host.list(folder.as_path()) else { return false };
    names.into_iter().all(|(name, kind)| {
        let path = name.to_str().and_then(|name| folder.child(name).ok());
        path.is_some_and(|path| {
            let now = entry(host, path.as_path()).ok().flatten();
            now.is_some()
                && now.as_ref() == base.entry(&path)
                && (kind != Kind::Folder || is_within(base, host, &path))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use sandbox_files::tree::Tree;

    use super::*;
    use crate::digest::Digest;
    use crate::snapshot::Snapshot;

    fn path(text: &str) -> TreePath {
        TreePath::try_from(text.to_owned()).unwrap()
    }

    fn packed(removed: &[&str]) -> Result<Vec<u8>, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/main.c"), "int main;").unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let snapshot = Snapshot::read(&tree, ["src/main.c".into()]).unwrap();
        let mut bytes = Vec::new();
        let removed = removed.iter().map(|text| path(text)).collect();
        let written = snapshot.write_changes(&mut bytes, removed);
        written.map(|()| bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn changes_are_read_as_they_were_written() {
        let changes = Changes::read(&packed(&["old", "a"]).unwrap()[..]).unwrap();
        assert_eq!(changes.removed, [path("a"), path("old")].into());
        let names: Vec<_> = changes.tree.entries().map(|(path, _)| path.to_string()).collect();
        assert_eq!(names, ["src", "src/main.c"]);
        assert_eq!(packed(&["a", "old"]), packed(&["old", "a"]), "the order does not matter");
    }

    #[test]
    fn removed_path_that_is_there_or_in_no_folder_is_refused() {
        for bad in ["src", "src/main.c", "src/main.c/x", "other/x"] {
            let error = packed(&[bad]).unwrap_err();
            assert!(error.contains("as removed"), "{bad}: {error}");
        }
        assert!(packed(&["a", "a/x"]).is_err(), "one in the other");
        assert!(packed(&["src/other.c"]).is_ok(), "the control");
    }

    #[test]
    fn changes_are_unpacked_as_the_upper_layer_of_an_overlay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("host/src")).unwrap();
        fs::write(at("host/src/main.c"), "old").unwrap();
        fs::set_permissions(at("host/src/main.c"), Permissions::from_mode(0o640)).unwrap();
        let host = Tree::open(&at("host")).unwrap();
        let bytes = packed(&["old", "src/other.c"]).unwrap();
        let content = Content { sha256: Digest::of(&bytes), size: bytes.len() as u64 };
        let unpack = |layer: &str, content: &Content| Changes::unpack(&bytes[..], content, &at(layer), &host);
        let other = unpack("other", &Content { size: 1, ..content }).unwrap_err();
        assert!(other.to_string().contains("another digest"), "{other}");
        let changes = unpack("layer", &content).unwrap();
        assert_eq!(changes, Changes::read(&bytes[..]).unwrap());
        let layer = Tree::open(&at("layer")).unwrap();
        for removed in ["old", "src/other.c"] {
            assert!(layer.facts(Path::new(removed)).unwrap().unwrap().is_whiteout, "{removed}");
        }
        let facts = layer.facts(Path::new("src/main.c")).unwrap().unwrap();
        assert_eq!((facts.mode & 0o7777, facts.size), (0o640, 9), "the permissions of the host's file");
        assert!(
            fs::metadata(at("layer/src/main.c")).unwrap().modified().unwrap()
                > std::time::UNIX_EPOCH + crate::unpack::TIME
        );
        assert!(unpack("layer", &content).is_err(), "the folder exists");
    }

    #[test]
    fn path_of_which_the_host_has_a_third_version_is_a_conflict() {
        let folder = tempfile::tempdir().unwrap();
        let tree = |name: &str, files: &[(&str, &str)]| {
            let root = folder.path().join(name);
            fs::create_dir(&root).unwrap();
            for (path, content) in files {
                fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
                fs::write(root.join(path), content).unwrap();
            }
            Tree::open(&root).unwrap()
        };
        let listing = |tree: &Tree, paths: &[&str]| {
            Snapshot::read(tree, paths.iter().map(PathBuf::from)).unwrap().listing().clone()
        };
        let files = [
            ("same", "1"),
            ("both", "1"),
            ("mine", "1"),
            ("gone", "1"),
            ("kept", "1"),
            ("dir/a", "1"),
            ("all/a", "1"),
            ("more/a", "1"),
        ];
        let base = listing(&tree("base", &files), &files.map(|(path, _)| path));
        let new = [
            ("same", "2"),
            ("both", "2"),
            ("mine", "2"),
            ("gone", "2"),
            ("new", "2"),
            ("taken", "2"),
            ("dir", "2"),
        ];
        let changes = Changes {
            tree: listing(&tree("task", &new), &new.map(|(path, _)| path)),
            removed: ["kept", "all", "more", "never"].map(path).into(),
        };
        let host = [
            ("same", "1"),
            ("both", "2"),
            ("mine", "3"),
            ("kept", "3"),
            ("taken", "3"),
            ("dir/a", "3"),
            ("all/a", "1"),
            ("more/a", "1"),
            ("more/b", "1"),
            ("never", "1"),
        ];
        let host = tree("host", &host);
        let conflicts: Vec<_> = changes.conflicts(&base, &host).into_iter().collect();
        let expected = ["dir", "gone", "kept", "mine", "more", "never", "taken"];
        assert_eq!(conflicts, expected.map(PathBuf::from));
        // Nothing that leads through a link is read.
        let linked = tree("linked", &[]);
        std::os::unix::fs::symlink(host.path(), linked.path().join("dir")).unwrap();
        let inner =
            Changes { tree: listing(&tree("deep", &[("dir/a", "1")]), &["dir/a"]), ..Changes::default() };
        assert_eq!(inner.conflicts(&base, &linked).len(), 2);
    }

    proptest! {
        #[test]
        fn changed_or_cut_archive_is_refused_or_differs(at in any::<prop::sample::Index>(), flip in 1..=255_u8, cut in any::<prop::sample::Index>()) {
            let bytes = packed(&["old"]).unwrap();
            let (mut changed, read) = (bytes.clone(), Changes::read(&bytes[..]).unwrap());
            changed[at.index(bytes.len())] ^= flip;
            prop_assert!(Changes::read(&changed[..]).map_or(true, |other| other != read));
            prop_assert!(Changes::read(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            prop_assert!(Changes::read(&bytes[..]).is_err());
        }
    }
}
