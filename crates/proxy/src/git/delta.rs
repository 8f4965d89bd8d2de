//! Objects that are stored as deltas of others.

/// Applies `delta` to `base`; `None` if the result is not an object of at most `limit` bytes.
pub(super) fn apply(base: &[u8], delta: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut rest = delta;
    if length(&mut rest)? != base.len() {
        return None;
    }
    let size = length(&mut rest)?;
    if size > limit {
        return None;
    }
    let mut object = Vec::with_capacity(size);
    while let Some(operation) = next(&mut rest) {
        let piece = if operation & 0x80 == 0 {
            let (piece, after) = rest.split_at_checked(usize::from(operation))?;
            rest = after;
            piece
        } else {
            let start = number(&mut rest, operation, 4)?;
            let bytes = match number(&mut rest, operation >> 4, 3)? {
                0 => 0x1_0000,
                bytes => bytes,
            };
            base.get(start..start.checked_add(bytes)?)?
        };
        // Every operation must add bytes.
        if piece.is_empty() || object.len() + piece.len() > size {
            return None;
        }
        object.extend_from_slice(piece);
    }
    (object.len() == size).then_some(object)
}

fn next(rest: &mut &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(*first)
}

/// A number with seven bits per byte, the lowest first.
fn length(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in (0..28).step_by(7) {
        let byte = next(rest)?;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A number whose bytes, the lowest first, are there if `present` has their bit.
fn number(rest: &mut &[u8], present: u8, bytes: u8) -> Option<usize> {
    let mut value = 0;
    for index in 0..bytes {
        if present & (1 << index) != 0 {
            value |= usize::from(next(rest)?) << (8 * index);
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_deltas_apply() {
        let base = b"0123456789";
        for (delta, expected) in [
            (b"\x0a\x03\x03abc".as_slice(), Some(b"abc".as_slice())),
            (b"\x0a\x04\x90\x04", Some(b"0123")),
            (b"\x0a\x04\x91\x06\x04", Some(b"6789")),
            (b"\x0a\x06\x91\x08\x02\x01x\x90\x03", Some(b"89x012")),
            (b"\x0a\x00", Some(b"")),
            // Another base, another length, nothing copied, beyond the end, cut short, nothing at
            // all.
            (b"\x0b\x03\x03abc", None),
            (b"\x0a\x04\x03abc", None),
            (b"\x0a\x02\x03abc", None),
            (b"\x0a\x00\x00", None),
            (b"\x0a\x04\x91\x07\x04", None),
            (b"\x0a\x03\x03ab", None),
            (b"\x0a\x80\x80\x04\x80", None),
            (b"\x0a\xff\xff\xff\xff\x01", None),
            (b"\x0a", None),
            (b"", None),
        ] {
            assert_eq!(apply(base, delta, 64).as_deref(), expected, "{}", delta.escape_ascii());
        }
        assert_eq!(apply(base, b"\x0a\x03\x03abc", 2), None);
    }
}
