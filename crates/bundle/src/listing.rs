//! The files, folders and links of a tree.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::Digest;
use crate::path::{LinkTarget, TreePath};

/// Entries of a tree.
pub(crate) const ENTRIES: usize = 1_000_000;
/// Bytes of all its files together: every reader of JSON reads such a number exactly.
const BYTES: u64 = (1 << 53) - 1;

/// All entries of a tree, ordered by path. Each is in a folder that is listed before it, or at the
/// root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing(BTreeMap<TreePath, Entry>);

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Entry {
    /// A regular file.
    File {
        /// The digest of its blob, which has its bytes.
        sha256: Digest,
        /// Their number.
        size: u64,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A folder, also an empty one.
    Folder,
    /// A symbolic link.
    Link(LinkTarget),
}

/// An entry as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row<P, E> {
    path: P,
    entry: E,
}

impl Listing {
    /// The entries of a tree, or the problem if they are not one.
    pub(crate) fn new(entries: BTreeMap<TreePath, Entry>) -> Result<Self, String> {
        if entries.len() > ENTRIES {
            return Err(too_many());
        }
        let (mut sizes, mut bytes) = (BTreeMap::new(), 0_u64);
        for (path, entry) in &entries {
            if path.parent().is_some_and(|parent| entries.get(&parent) != Some(&Entry::Folder)) {
                return Err(format!("`{path}` is in no folder that is listed"));
            }
            if let Entry::File { sha256, size, .. } = entry {
                if sizes.insert(*sha256, *size).is_some_and(|other| other != *size) {
                    return Err(format!("`{path}` has another size than another file with its digest"));
                }
                bytes = bytes.saturating_add(*size);
            }
        }
        if bytes <= BYTES { Ok(Self(entries)) } else { Err("the files are too large".to_owned()) }
    }

    /// The entries, by path.
    pub fn entries(&self) -> impl Iterator<Item = (&TreePath, &Entry)> {
        self.0.iter()
    }

    /// The entry at `path`; `None` if there is none.
    #[must_use]
    pub fn entry(&self, path: &TreePath) -> Option<&Entry> {
        self.0.get(path)
    }

    /// The sizes of the files, by path.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.0.values().filter_map(|entry| match entry {
            Entry::File { size, .. } => Some(*size),
            Entry::Folder | Entry::Link(_) => None,
        })
    }

    /// The sizes of the blobs, by digest.
    pub(crate) fn blobs(&self) -> BTreeMap<Digest, u64> {
        let blob = |entry: &Entry| match entry {
            Entry::File { sha256, size, .. } => Some((*sha256, *size)),
            Entry::Folder | Entry::Link(_) => None,
        };
        self.0.values().filter_map(blob).collect()
    }
}

pub(crate) fn too_many() -> String {
    format!("a tree has at most {ENTRIES} entries")
}

impl Serialize for Listing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(path, entry)| Row { path, entry }))
    }
}

impl<'de> Deserialize<'de> for Listing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Listing;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of entries")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Listing, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(Row { path, entry }) = list.next_element::<Row<TreePath, Entry>>()? {
                    if entries.last_key_value().is_some_and(|(last, _)| *last >= path) {
                        return Err(A::Error::custom("an entry is listed twice, or after a later path"));
                    }
                    if entries.len() == ENTRIES {
                        return Err(A::Error::custom(too_many()));
                    }
                    entries.insert(path, entry);
                }
                Listing::new(entries).map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_seq(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical;

    fn file(of: &str, size: u64) -> String {
        let sha256 = Digest::of(of.as_bytes());
        format!(r#"{{"file":{{"sha256":"{sha256}","size":{size},"executable":false}}}}"#)
    }

    fn read(entries: &[(&str, &str)]) -> Result<Listing, String> {
        let rows: Vec<_> =
            entries.iter().map(|(path, entry)| format!(r#"{{"path":"{path}","entry":{entry}}}"#)).collect();
        let text = format!("[{}]\n", rows.join(","));
        let listing: Listing = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        assert_eq!(String::from_utf8(canonical::to_bytes(&listing).unwrap()).unwrap(), text);
        Ok(listing)
    }

    #[test]
    fn entries_that_are_not_a_tree_are_refused() {
        const FOLDER: &str = r#""folder""#;
        const LINK: &str = r#"{"link":"../../etc"}"#;
        let (x, large) = (file("x", 1), file("large", BYTES));
        let good = [("a", FOLDER), ("a-b", &x), ("a/b", &x), ("a/link", LINK)];
        assert_eq!(read(&good).unwrap().blobs().len(), 1, "the control; one blob");
        assert!(read(&[("a", &large)]).is_ok(), "the control");
        for (entries, reason) in [
            (vec![("a/b", &x[..])], "in no folder"),
            (vec![("a", &x), ("a/b", &x)], "in no folder"),
            (vec![("a", LINK), ("a/passwd", &x)], "in no folder"),
            (vec![("a", &x), ("b", &file("x", 2))], "another size"),
            (vec![("a", &x), ("b", &large)], "too large"),
            (vec![("b", FOLDER), ("a", FOLDER)], "after a later path"),
            (vec![("a", FOLDER), ("a", FOLDER)], "listed twice"),
            (vec![("../a", FOLDER)], "a name in the path"),
            (vec![(".git", LINK)], "a name in the path"),
            (vec![("a", r#""device""#)], "unknown variant"),
            (vec![("a", r#""folder","mode":4095"#)], "unknown field"),
            (vec![("a", &x.replace("false", r#"false,"mode":4095"#))], "unknown field"),
        ] {
            let error = read(&entries).unwrap_err();
            assert!(error.contains(reason), "{entries:?}: {error}");
        }
    }
}
