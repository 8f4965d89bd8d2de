//! From bytes to a text.

use crate::fault::Fault;
use crate::lines::position_of;
use crate::position::without_mark;

/// The text that `bytes` are in UTF-8.
///
/// # Errors
///
/// When they are no UTF-8, with the place of the first character that is none.
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
    fn value_that_is_not_text_has_its_place() {
        assert_eq!(text("höme: x".as_bytes()), Ok("höme: x"));
        for (bytes, line, column) in [
            (&b"\xff\xfea\0"[..], 1, 1),
            (b"a: b\nc: \xc3\xb6\xe9\n", 2, 5),
            (b"\xef\xbb\xbfa\xff", 1, 2),
            (b"a\r\n\xc3", 2, 1),
        ] {
            let fault = text(bytes).unwrap_err();
            assert_eq!(fault.position, Position { line, column }, "{bytes:?}");
            assert_eq!(fault.message, "not UTF-8: save the file as UTF-8");
        }
    }
}
