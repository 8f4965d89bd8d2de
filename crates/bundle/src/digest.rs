//! SHA-256 digests.

use std::fmt;
use std::io::{self, Read, Write};

use sandbox_files::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest; 64 lower-case hexadecimal digits as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number of all bytes of `input`, and their digest.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub fn of_all(input: impl Read) -> io::Result<(u64, Self)> {
        copy(input, u64::MAX, io::sink())
    }
}

/// Copies up to `size` bytes of `input` to `output`; returns their number and digest.
pub(crate) fn copy(input: impl Read, size: u64, output: impl Write) -> io::Result<(u64, Digest)> {
    let mut output = Hashing { hasher: Sha256::new(), output };
    let count = io::copy(&mut input.take(size), &mut output)?;
    Ok((count, Digest(output.hasher.finalize().into())))
}

/// A reader with the number and digest of the bytes that were read.
#[derive(Debug)]
pub(crate) struct HashedInput<R> {
    input: R,
    count: u64,
    hasher: Sha256,
}

impl<R> HashedInput<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, count: 0, hasher: Sha256::new() }
    }

    pub(crate) fn finish(self) -> (u64, Digest) {
        (self.count, Digest(self.hasher.finalize().into()))
    }
}

impl<R: Read> Read for HashedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        self.count += count as u64;
        Ok(count)
    }
}

struct Hashing<W> {
    hasher: Sha256,
    output: W,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.output.write(bytes)?;
        self.hasher.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let problem = "a digest has 64 lower-case hexadecimal digits";
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(problem),
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(problem) };
        let bytes = pairs.iter().map(|[high, low]| Ok::<u8, &str>(digit(*high)? << 4 | digit(*low)?));
        let bytes = bytes.collect::<Result<Vec<u8>, _>>()?;
        bytes.try_into().map(Self).map_err(|_| problem)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        hex(&digest.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_has_one_text() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".to_owned();
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(Digest::try_from(empty.clone()), Ok(Digest::of(b"")));
        for other in [
            String::new(),
            empty[1..].to_owned(),
            empty[2..].to_owned(),
            empty.to_uppercase(),
            format!("{empty}00"),
            empty.replace('e', "g"),
        ] {
            assert!(Digest::try_from(other.clone()).is_err(), "{other}");
        }
    }
}
