//! Decodes bytes to a text.

use crate::fault::Fault;
use crate::lines::position_of;
use crate::position::without_mark;

/// Decodes `bytes` as UTF-8.
///
/// # Errors
///
/// If they are not UTF-8, with the position of the first invalid character.
pub fn text(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let good = without_mark(std::str::from_utf8(good).unwrap_or_default());
        Fault {
            position: position_of(good, good.len()),
            message: "not UTF-8: save the file as UTF-8".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::Position;

    #[test]
    fn invalid_utf8_has_its_position() {
        assert_eq!(text("höme: x".as_bytes()), Ok("höme: x"));
        for (bytes, line, column) in [
            (&b"\xff\xfea\0"[..], 1, 1),
            (b"a: b\nc: \xc3\xb6\xe9\n", 2, 5),
            (b"\xef\xbb\xbfa\xff", 1, 2),
            (b"a\r\n\xc3", 2, 1),
        ] {
            let error = text(bytes).unwrap_err();
            assert_eq!(error.position, Position { line, column }, "{bytes:?}");
            assert_eq!(error.message, "not UTF-8: save the file as UTF-8");
        }
    }
}
