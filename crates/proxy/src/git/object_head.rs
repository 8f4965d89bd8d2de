//! The header of an object in a pack.

use super::commit::{Format, Id};

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Commit,
    /// A tree, a blob or a tag.
    Other,
    /// A delta of the object at this place of the pack.
    DeltaOfPlace(u64),
    /// A delta of an object that may be anywhere.
    DeltaOf(Id),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectHead {
    pub(super) kind: Kind,
    /// The length of the object, or of the delta, in bytes.
    pub(super) size: u64,
    /// The length of the header in bytes.
    pub(super) length: usize,
}

/// The bytes are not the header of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidHead;

/// The header at the beginning of `bytes`, which are at `place` in the pack; `None` if its end has
/// not arrived yet.
pub(super) fn read(bytes: &[u8], place: u64, format: Format) -> Result<Option<ObjectHead>, InvalidHead> {
    let mut rest = bytes.iter().copied();
    let Some(first) = rest.next() else { return Ok(None) };
    let (mut size, mut more, mut shift) = (u64::from(first & 0x0f), first & 0x80 != 0, 4_u32);
    let mut length = 1;
    while more {
        // The next seven bits must fit a `u64`, whatever follows.
        if shift > 53 {
            return Err(InvalidHead);
        }
        let Some(byte) = rest.next() else { return Ok(None) };
        size |= u64::from(byte & 0x7f) << shift;
        (more, shift, length) = (byte & 0x80 != 0, shift + 7, length + 1);
    }
    let kind = match first >> 4 & 7 {
        1 => Kind::Commit,
        2..=4 => Kind::Other,
        6 => {
            let mut back = 0_u64;
            loop {
                // An endless distance overflows before it is long.
                let Some(byte) = rest.next() else { return Ok(None) };
                length += 1;
                back = back.checked_mul(128).ok_or(InvalidHead)? | u64::from(byte & 0x7f);
                if byte & 0x80 == 0 {
                    break;
                }
                back = back.checked_add(1).ok_or(InvalidHead)?;
            }
            let base = place.checked_sub(back).filter(|base| *base < place);
            Kind::DeltaOfPlace(base.ok_or(InvalidHead)?)
        }
        7 => {
            let Some(id) = bytes.get(length..length + format.length()) else { return Ok(None) };
            length += format.length();
            Kind::DeltaOf(format.id(id).ok_or(InvalidHead)?)
        }
        _ => return Err(InvalidHead),
    };
    Ok(Some(ObjectHead { kind, size, length }))
}
