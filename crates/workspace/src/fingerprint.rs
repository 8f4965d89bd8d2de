//! Identifies an entry under another name: an [`InodeStamp`](sandbox_files::tree::InodeStamp) does
//! not survive a rename.

use sandbox_files::tree::{Facts, Kind, Tree};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A digest of the names, numbers, owners, sizes, permissions and times of a file, or of a folder
/// with its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ContentFingerprint(String);

impl ContentFingerprint {
    /// The fingerprint of `path`; `None` if there is no entry, or it cannot be read completely.
    pub(crate) fn of(tree: &Tree, path: &Path) -> Option<Self> {
        let mut hash = Sha256::new();
        // The name of the tree itself is not part of it.
        let facts = if path.as_os_str().is_empty() {
            Facts::of(tree.folder(path).ok()?).ok()?
        } else {
            tree.facts(path).ok().flatten()?
        };
        add(&mut hash, Path::new(""), &facts);
        let mut pending = Vec::new();
        pending.extend((facts.kind == Kind::Folder).then(PathBuf::new));
        while let Some(folder) = pending.pop() {
            for (name, facts) in tree.list_facts(&joined(path, &folder)).ok()? {
                let inner = folder.join(name);
                add(&mut hash, &inner, &facts);
                if facts.kind == Kind::Folder {
                    pending.push(inner);
                }
            }
        }
        Some(Self(BASE64_STANDARD.encode(hash.finalize())))
    }
}

fn joined(path: &Path, inner: &Path) -> PathBuf {
    if inner.as_os_str().is_empty() { path.to_owned() } else { path.join(inner) }
}

fn add(hash: &mut Sha256, inner: &Path, facts: &Facts) {
    let name = inner.as_os_str().as_bytes();
    hash.update(name.len().to_le_bytes());
    hash.update(name);
    hash.update(facts.stamp.inode.to_le_bytes());
    hash.update(facts.uid.to_le_bytes());
    hash.update(facts.gid.to_le_bytes());
    hash.update(facts.mode.to_le_bytes());
    hash.update([u8::from(facts.kind == Kind::Folder)]);
    // A folder's content is part of the fingerprint itself.
    if facts.kind != Kind::Folder {
        hash.update(facts.size.to_le_bytes());
        hash.update(facts.modified.0.to_le_bytes());
        hash.update(facts.modified.1.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn fingerprint_survives_a_rename_but_not_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("a/sub")).unwrap();
        fs::write(at("a/sub/f"), "1").unwrap();
        let first = ContentFingerprint::of(&tree, Path::new("a")).unwrap();
        fs::rename(at("a"), at("b")).unwrap();
        fs::write(at("other"), "1").unwrap();
        let seal = || ContentFingerprint::of(&tree, Path::new("b")).unwrap();
        assert_eq!(seal(), first);
        assert_eq!(ContentFingerprint::of(&tree, Path::new("a")), None);

        let changes: [&dyn Fn(); 4] = [
            &|| fs::write(at("b/sub/f"), "22").unwrap(),
            &|| fs::set_permissions(at("b/sub/f"), fs::Permissions::from_mode(0o700)).unwrap(),
            &|| fs::write(at("b/sub/new"), "").unwrap(),
            &|| fs::rename(at("b/sub/new"), at("b/sub/f")).unwrap(),
        ];
        let mut before = first;
        for (number, change) in changes.into_iter().enumerate() {
            change();
            assert_ne!(seal(), before, "{number}");
            before = seal();
        }
    }
}
