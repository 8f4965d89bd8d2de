//! Files and folders that a run obeys or builds from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sandbox_files::hex;
use sha2::{Digest as _, Sha256};

/// The role of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    Configuration,
    Allowlist,
    /// The Dockerfile and the files that it copies.
    Image,
    /// Certificates of authorities for upstream servers.
    Roots,
}

impl Role {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Allowlist => "allowlist",
            Self::Image => "image",
            Self::Roots => "roots",
        }
    }
}

/// The path and role of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) role: Role,
    pub(crate) path: PathBuf,
}

/// A SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest(String);

/// A file or folder that a run obeys or builds from, with a digest of its role, path and content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Input {
    pub(crate) role: Role,
    pub(crate) path: PathBuf,
    pub(crate) digest: Digest,
    /// Of the bytes alone, wherever they are.
    pub(crate) content: Digest,
}

impl Input {
    /// The input of the file at `path` with the content `bytes`.
    pub(crate) fn new(role: Role, path: &Path, bytes: &[u8]) -> Self {
        Self::of_files(role, path, [("", bytes)])
    }

    /// The input of several files below the folder `path`, sorted by their names.
    pub(crate) fn of_files<'a>(
        role: Role,
        path: &Path,
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        // The length prefix makes the encoding of the parts unambiguous.
        let part = |hash: &mut Sha256, bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        let (mut placed, mut content) = (Sha256::new(), Sha256::new());
        part(&mut placed, role.as_str().as_bytes());
        part(&mut placed, path.as_os_str().as_encoded_bytes());
        for bytes in files.into_iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes]) {
            part(&mut placed, bytes);
            part(&mut content, bytes);
        }
        let [digest, content] = [placed, content].map(|hash| Digest(hex(&hash.finalize())));
        Self { role, path: path.to_owned(), digest, content }
    }

    /// Its place, regardless of its content.
    pub(crate) fn place(&self) -> Place {
        Place { role: self.role, path: self.path.clone() }
    }
}

impl Digest {
    /// The digest of all `inputs`, in any order.
    pub(crate) fn of_all<'a>(inputs: impl IntoIterator<Item = &'a Input>) -> Self {
        let mut digests: Vec<&Self> = inputs.into_iter().map(|input| &input.digest).collect();
        digests.sort_unstable();
        let mut hash = Sha256::new();
        for digest in digests {
            hash.update(&digest.0);
        }
        Self(hex(&hash.finalize()))
    }

    /// A prefix that is long enough to distinguish contents, even if one party crafted them.
    pub(crate) fn short(&self) -> &str {
        self.0.get(..40).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            Ok(Self(hex.to_owned()))
        } else {
            Err("a digest must be `sha256:` and 64 hexadecimal digits, as `sandbox trust --show` prints it"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_covers_role_place_name_and_content() {
        let path = Path::new("/srv/app/.sandbox/sandbox.yaml");
        let first = Input::new(Role::Configuration, path, b"image: x");
        assert_eq!(first, Input::new(Role::Configuration, path, b"image: x"));
        for other in [
            Input::new(Role::Allowlist, path, b"image: x"),
            Input::new(Role::Configuration, Path::new("/srv/b"), b"image: x"),
            Input::new(Role::Configuration, path, b"image: y"),
            Input::of_files(Role::Configuration, path, [("image: x", &b""[..])]),
            Input::of_files(Role::Configuration, path, [("", &b"image"[..]), ("", &b": x"[..])]),
        ] {
            assert_ne!(first.digest, other.digest, "{other:?}");
        }
    }

    #[test]
    fn digest_of_all_is_independent_of_order_and_parses() {
        let one = Input::new(Role::Configuration, Path::new("/a"), b"1");
        let two = Input::new(Role::Allowlist, Path::new("/b"), b"2");
        let all = Digest::of_all(&[one.clone(), two.clone()]);
        assert_eq!(all, Digest::of_all(&[two, one.clone()]));
        assert_ne!(all, Digest::of_all(&[one]));
        assert_eq!(all.to_string().parse(), Ok(all.clone()));
        for text in ["", all.short(), "sha256:", "sha256:xyz"] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
