//! The changes of a task to the tree of its bundle.

use std::collections::BTreeSet;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use crate::archive::Reader;
use crate::canonical;
use crate::error::InvalidBundle;
use crate::listing::Listing;
use crate::path::TreePath;

/// The name of the first entry of such an archive, and its maximum size.
pub(crate) const CHANGES: &str = "changes.json";
const BYTES: u64 = 256 << 20;

/// The paths that a task changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Those that are gone, with everything in them.
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
    /// If any byte differs from those that were written, a path is removed and also there, or reading
    /// fails.
    pub fn read(input: impl Read) -> Result<Self, InvalidBundle> {
        let mut archive = Reader(input);
        let bytes = archive.whole(CHANGES, BYTES)?;
        let invalid = |problem: String| InvalidBundle::new(CHANGES, problem);
        let changes: Self = canonical::from_bytes(&bytes).map_err(invalid)?;
        changes.check()?;
        archive.blobs(&changes.tree, |_| Ok(io::sink()))?;
        Ok(changes)
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
        match self.removed.iter().find(|path| self.tree.entry(path).is_some()) {
            None => Ok(()),
            Some(path) => Err(InvalidBundle::new(CHANGES, format!("lists `{path}` as removed and as there"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use sandbox_files::tree::Tree;

    use super::*;
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
    fn path_that_is_removed_and_there_is_refused() {
        for bad in ["src", "src/main.c"] {
            assert!(packed(&[bad]).unwrap_err().contains("as removed and as there"), "{bad}");
        }
        assert!(packed(&["src/other.c"]).is_ok(), "the control");
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
