//! Decides whether a push is permitted, once its whole pack was read and before the pack's checksum
//! is sent.

use allowlist::{Pushes, Reason};
use bytes::Bytes;

use super::ancestry::MEMORY;
use super::commit::Format;
use super::pack::{Malformed, Pack};
use crate::policy::Blocked;

/// The number of bytes that one proof may occupy.
#[expect(clippy::cast_possible_truncation, reason = "four megabytes")]
pub(crate) const ROOM: u32 = MEMORY as u32;

/// Proves that each of a push's updates is a fast-forward.
pub(crate) struct Proof {
    pushes: Pushes,
    format: Format,
    /// The number of bytes that are left before the pack.
    before: usize,
    pack: Pack,
    /// The bytes after the last object.
    checksum: Vec<u8>,
}

impl Proof {
    /// The proof that `pushes` requires; `None` if their ids have an unknown format.
    pub(crate) fn new(pushes: Pushes) -> Option<Self> {
        let format = Format::of_length(pushes.updates.first()?.new.len())?;
        let checksum = Vec::with_capacity(format.length());
        let mut pack = Pack::new(format);
        for commit in pushes.shallow.iter().filter_map(|commit| format.id(commit)) {
            pack.ancestry.cut(commit);
        }
        Some(Self { before: pushes.pack_at, pushes, format, pack, checksum })
    }

    /// Takes the bytes that can be sent from `data`, the next bytes of the body, and withholds the
    /// checksum. At most `effort` bytes are inflated.
    pub(crate) fn read(&mut self, data: &mut Bytes, effort: &mut usize) -> Result<Bytes, Blocked> {
        if self.before > 0 {
            let before = data.split_to(self.before.min(data.len()));
            self.before -= before.len();
            return Ok(before);
        }
        let read = self.pack.read(data, effort).map_err(|Malformed| malformed())?;
        let objects = data.split_to(read);
        if self.pack.is_read() {
            self.checksum.extend_from_slice(&std::mem::take(data));
            if self.checksum.len() > self.format.length() {
                return Err(malformed());
            }
        }
        Ok(objects)
    }

    /// The withheld bytes, if everything is proven and nothing follows.
    pub(crate) fn finish(&mut self) -> Result<Bytes, Blocked> {
        if !self.pack.is_read() || self.checksum.len() != self.format.length() {
            return Err(malformed());
        }
        for update in &self.pushes.updates {
            let ids = (self.format.id(&update.new), self.format.id(&update.old));
            let (Some(new), Some(old)) = ids else { return Err(malformed()) };
            if !self.pack.ancestry.reaches(&new, &old) {
                return Err(self.pushes.unproven(update).into());
            }
        }
        Ok(std::mem::take(&mut self.checksum).into())
    }
}

fn malformed() -> Blocked {
    Blocked::new(Reason::Body, "the pack of this push cannot be read: push with git itself")
}
