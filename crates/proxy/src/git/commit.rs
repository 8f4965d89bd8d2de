//! Commits: their ids and their parents.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

/// The id of an object; a shorter id has zeros at the end.
pub(super) type Id = [u8; 32];

/// The hash with which a repository names its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Sha1,
    Sha256,
}

impl Format {
    /// The format whose ids have `length` bytes.
    pub(super) fn of_length(length: usize) -> Option<Self> {
        match length {
            20 => Some(Self::Sha1),
            32 => Some(Self::Sha256),
            _ => None,
        }
    }

    /// The length of an id in bytes.
    pub(super) fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// The id in `bytes`, if they have its length.
    pub(super) fn id(self, bytes: &[u8]) -> Option<Id> {
        let mut id = Id::default();
        id.get_mut(..self.length())?.copy_from_slice(bytes.get(..self.length())?);
        (bytes.len() == self.length()).then_some(id)
    }

    /// The id of a commit.
    pub(super) fn id_of(self, commit: &[u8]) -> Option<Id> {
        let algorithm = match self {
            Self::Sha1 => &SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &SHA256,
        };
        let mut context = Context::new(algorithm);
        context.update(format!("commit {}\0", commit.len()).as_bytes());
        context.update(commit);
        self.id(context.finish().as_ref())
    }

    /// The parents of a commit.
    pub(super) fn parents(self, commit: &[u8]) -> Option<Box<[Id]>> {
        let mut lines = commit.split(|byte| *byte == b'\n');
        self.hexadecimal(lines.next()?.strip_prefix(b"tree ")?)?;
        let parents = lines.map_while(|line| line.strip_prefix(b"parent "));
        parents.map(|digits| self.hexadecimal(digits)).collect()
    }

    fn hexadecimal(self, digits: &[u8]) -> Option<Id> {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let pairs = digits.chunks(2).map(|pair| match pair {
            [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
            _ => None,
        });
        self.id(&pairs.collect::<Option<Vec<u8>>>()?)
    }
}
