//! Packet lines, the framing of git's requests.

/// Maximum size of a packet in bytes, including the four of its length.
const LARGEST: usize = 65_520;
/// Bytes of a packet's length.
const HEAD: usize = 4;

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// `0000`.
    Flush,
    /// A line, without the line feed that may end it.
    Line(&'a [u8]),
}

/// The data does not begin with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoPacket;

/// The packet at the beginning of `bytes` and its length; `None` if it is incomplete. Lengths must
/// have git's own form.
pub(super) fn next(bytes: &[u8]) -> Result<Option<(Packet<'_>, usize)>, NoPacket> {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD>() else {
        return if bytes.iter().all(|byte| digit(*byte).is_some()) { Ok(None) } else { Err(NoPacket) };
    };
    let length = head.iter().try_fold(0, |sum, byte| Some(sum * 16 + digit(*byte)?)).ok_or(NoPacket)?;
    match length {
        0 => Ok(Some((Packet::Flush, HEAD))),
        1..=HEAD => Err(NoPacket),
        _ if length > LARGEST => Err(NoPacket),
        _ => {
            let line = bytes.get(HEAD..length);
            Ok(line.map(|line| (Packet::Line(line.strip_suffix(b"\n").unwrap_or(line)), length)))
        }
    }
}

fn digit(byte: u8) -> Option<usize> {
    match byte {
        b'0'..=b'9' => Some(usize::from(byte - b'0')),
        b'a'..=b'f' => Some(usize::from(byte - b'a') + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets() {
        let line = |text: &'static [u8], length| Ok(Some((Packet::Line(text), length)));
        for (bytes, expected) in [
            (b"0000".as_slice(), Ok(Some((Packet::Flush, 4)))),
            (b"0000PACK", Ok(Some((Packet::Flush, 4)))),
            (b"0006a\n0000", line(b"a", 6)),
            (b"0006ab", line(b"ab", 6)),
            (b"0007a\n\n", line(b"a\n", 7)),
            (b"0005\n", line(b"", 5)),
            (b"000aabcdef", line(b"abcdef", 10)),
            (b"", Ok(None)),
            (b"00", Ok(None)),
            (b"0006a", Ok(None)),
            (b"fff0", Ok(None)),
            (b"fff1", Err(NoPacket)),
            (b"0001", Err(NoPacket)),
            (b"0002", Err(NoPacket)),
            (b"0003", Err(NoPacket)),
            (b"0004", Err(NoPacket)),
            (b"000Aabcdef", Err(NoPacket)),
            (b"PACK", Err(NoPacket)),
            (b"P", Err(NoPacket)),
            (b"+005a", Err(NoPacket)),
            (b" 005a", Err(NoPacket)),
        ] {
            assert_eq!(next(bytes), expected, "{}", bytes.escape_ascii());
        }
    }
}
