//! Compares files with holes, which can be skipped without reading.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

/// Bytes compared at a time.
const STEP: usize = 64 * 1024;

/// Whether two files have the same content. Holes in both are not read.
pub(super) fn same_content(one: &File, other: &File) -> io::Result<bool> {
    let size = one.metadata()?.len();
    if size != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; STEP], vec![0; STEP]);
    let mut at = 0;
    while at < size {
        let data = match (next_data(one, at)?, next_data(other, at)?) {
            (Some(one), Some(other)) => one.min(other),
            (Some(data), None) | (None, Some(data)) => data,
            (None, None) => return Ok(true),
        };
        // Everything before it is zeros in both.
        at = data.max(at);
        let (left, right) = (fill(one, at, &mut left)?, fill(other, at, &mut right)?);
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
        at = at.saturating_add(left.len() as u64);
    }
    Ok(true)
}

/// Adds the content of `file` to `hash`: blocks that are not only zeros, which a hole may replace.
pub(super) fn add_content(file: &File, hash: &mut Sha256) -> io::Result<()> {
    let size = file.metadata()?.len();
    hash.update(size.to_le_bytes());
    let mut block = vec![0; STEP];
    let mut at = 0;
    while at < size {
        let Some(data) = next_data(file, at)? else { break };
        at = data - data % STEP as u64;
        let read = fill(file, at, &mut block)?;
        if read.iter().any(|byte| *byte != 0) {
            hash.update(at.to_le_bytes());
            hash.update(read);
        }
        at = at.saturating_add(STEP as u64);
    }
    Ok(())
}

/// The position of the next byte on the disk; `None` for a hole to the end.
fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        // The file system does not support holes.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}

/// Reads as much as there is, up to the length of `buffer`.
fn fill<'a>(file: &File, at: u64, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at.saturating_add(length as u64)) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buffer.get(..length).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};
    use std::time::{Duration, Instant};

    use super::*;

    fn file(size: u64, content: &[(u64, &[u8])]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for (at, bytes) in content {
            file.seek(io::SeekFrom::Start(*at)).unwrap();
            file.write_all(bytes).unwrap();
        }
        file
    }

    fn digest(file: &File) -> Vec<u8> {
        let mut hash = Sha256::new();
        add_content(file, &mut hash).unwrap();
        hash.finalize().to_vec()
    }

    #[test]
    fn holes_are_zeros_and_are_not_read() {
        const LARGE: u64 = 1 << 40;
        let zeros = [0; 5000];
        let begun = Instant::now();
        for (one, other, expected) in [
            (file(LARGE, &[]), file(LARGE, &[]), true),
            (file(LARGE, &[(LARGE - 1, b"x")]), file(LARGE, &[(LARGE - 1, b"x")]), true),
            (file(LARGE, &[(LARGE / 2, b"x")]), file(LARGE, &[]), false),
            (file(LARGE, &[(123_456, &zeros)]), file(LARGE, &[]), true),
            (file(200_000, &[(70_000, b"a")]), file(200_000, &[(70_000, b"b")]), false),
            (file(3, &[(0, b"abc")]), file(3, &[(0, b"abc")]), true),
            (file(3, &[]), file(4, &[]), false),
            (file(0, &[]), file(0, &[]), true),
        ] {
            assert_eq!(same_content(&one, &other).unwrap(), expected);
            assert_eq!(same_content(&other, &one).unwrap(), expected);
            assert_eq!(digest(&one) == digest(&other), expected);
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "a hole was read");
    }
}
