//! A tar file of which every byte is determined by the names and contents of its entries.

use std::io::{self, Read, Write};

use tar::{EntryType, Header};

use crate::digest::{self, Digest};
use crate::error::InvalidBundle;
use crate::listing::Listing;

/// Bytes of a header, and the multiple to which a content is padded.
const BLOCK: usize = 512;
/// The end of a tar file.
pub(crate) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Writes an entry with the first `size` bytes of `input`, and returns their number and digest. With
/// fewer, what was written is not an archive.
pub(crate) fn write(
    output: &mut impl Write,
    name: &str,
    size: u64,
    input: impl Read,
) -> io::Result<(u64, Digest)> {
    output.write_all(header(name, size)?.as_bytes())?;
    let copied = digest::copy(input, size, &mut *output)?;
    output.write_all(padding(size))?;
    Ok(copied)
}

/// Reads an archive: only the bytes that [`write`] writes. There is no parser of other archives.
#[derive(Debug)]
pub(crate) struct Reader<R>(pub(crate) R);

impl<R: Read> Reader<R> {
    /// The content of the entry `name`, of at most `most` bytes.
    pub(crate) fn whole(&mut self, name: &str, most: u64) -> Result<Vec<u8>, InvalidBundle> {
        let mut found = Header::new_old();
        self.0.read_exact(found.as_mut_bytes()).map_err(InvalidBundle::reading(name))?;
        let size = found.entry_size().unwrap_or(u64::MAX);
        if size > most {
            return Err(InvalidBundle::new(name, format!("is not there, or has more than {most} bytes")));
        }
        let expected = header(name, size).map_err(InvalidBundle::reading(name))?;
        if found.as_bytes() != expected.as_bytes() {
            return Err(changed(name));
        }
        // No memory for bytes that are only promised.
        let mut content = Vec::new();
        self.content(name, size, &mut content)?;
        Ok(content)
    }

    /// Reads the blobs of `tree`, and demands that the archive ends after them. Each is written to
    /// what `output` returns for it.
    pub(crate) fn blobs<W: Write>(
        mut self,
        tree: &Listing,
        mut output: impl FnMut(&Digest) -> io::Result<W>,
    ) -> Result<(), InvalidBundle> {
        for (digest, size) in tree.blobs() {
            let name = blob(&digest);
            let expected = header(&name, size).map_err(InvalidBundle::reading(&name))?;
            self.expect(expected.as_bytes(), &name)?;
            let output = output(&digest).map_err(InvalidBundle::reading(&name))?;
            if self.content(&name, size, output)? != digest {
                return Err(InvalidBundle::new(&name, "was changed: it has another digest"));
            }
        }
        self.end()
    }

    fn end(mut self) -> Result<(), InvalidBundle> {
        let name = "the end";
        self.expect(&END, name)?;
        let (more, _) = digest::copy(&mut self.0, 1, io::sink()).map_err(InvalidBundle::reading(name))?;
        if more == 0 { Ok(()) } else { Err(InvalidBundle::new(name, "is followed by more")) }
    }

    fn content(&mut self, name: &str, size: u64, output: impl Write) -> Result<Digest, InvalidBundle> {
        let (count, digest) =
            digest::copy(&mut self.0, size, output).map_err(InvalidBundle::reading(name))?;
        if count < size {
            return Err(InvalidBundle::reading(name)(io::ErrorKind::UnexpectedEof.into()));
        }
        self.expect(padding(size), name)?;
        Ok(digest)
    }

    /// Reads the very bytes `expected`.
    fn expect(&mut self, expected: &[u8], name: &str) -> Result<(), InvalidBundle> {
        let mut found = vec![0; expected.len()];
        self.0.read_exact(&mut found).map_err(InvalidBundle::reading(name))?;
        if found == expected { Ok(()) } else { Err(changed(name)) }
    }
}

/// The name of the entry of a blob.
pub(crate) fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{digest}")
}

fn changed(name: &str) -> InvalidBundle {
    InvalidBundle::new(name, "was changed, or written by another program: its header or padding differs")
}

/// The only header that an entry of this name and size has.
fn header(name: &str, size: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_path(name)?;
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header.set_cksum();
    Ok(header)
}

/// The zeros after a content of `size` bytes.
fn padding(size: u64) -> &'static [u8] {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    END.get(..(BLOCK - over) % BLOCK).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_is_a_tar_file() {
        let mut archive = Vec::new();
        for content in [&b"short"[..], &[7; BLOCK], b""] {
            let written = write(&mut archive, "blobs/x", content.len() as u64, content).unwrap();
            assert_eq!(written, (content.len() as u64, Digest::of(content)));
        }
        archive.extend(END);
        let mut tar = tar::Archive::new(&archive[..]);
        let sizes = tar.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            assert_eq!((entry.header().mode().unwrap(), entry.header().mtime().unwrap()), (0o644, 0));
            entry.size()
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [5, 512, 0]);
        assert_eq!(header("x", 9 << 30).unwrap().entry_size().unwrap(), 9 << 30, "more than 8 GiB");
    }

    #[test]
    fn content_that_is_only_promised_takes_no_memory() {
        let most = 1 << 40;
        let read = |size: u64| {
            let head = header("x", size).unwrap();
            Reader(&head.as_bytes()[..]).whole("x", most).unwrap_err().to_string()
        };
        assert!(read(most).ends_with("is cut off"), "{}", read(most));
        for size in [most + 1, u64::MAX] {
            assert!(read(size).contains("has more than"), "{}", read(size));
        }
    }
}
