//! The line before a chunk: `SIZE;chunk-signature=SIGNATURE`.

use super::algorithm::Algorithm;
use super::error::ChunkError;

/// The maximum length of such a line in bytes, including its end. The longest that clients send has
/// 179.
pub(super) const MAX_HEAD: usize = 256;
/// The maximum number of characters of a signature: a DER-encoded P-256 signature has at most 72
/// bytes.
const MAX_SIGNATURE: usize = 144;
/// The maximum number of hexadecimal digits of a size.
const MAX_DIGITS: usize = 16;

/// The contents of such a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChunkHead {
    /// Bytes of data.
    pub(super) size: u64,
    /// The line up to the signature, as received.
    prefix: String,
    width: usize,
}

impl ChunkHead {
    /// Reads a whole line.
    pub(super) fn new(algorithm: Algorithm, line: &[u8]) -> Result<Self, ChunkError> {
        const MALFORMED: ChunkError = ChunkError::Malformed("a chunk does not begin with size and signature");
        let text = str::from_utf8(line).ok().and_then(|line| line.strip_suffix("\r\n")).ok_or(MALFORMED)?;
        let (prefix, signature) = text.split_once('=').ok_or(MALFORMED)?;
        let size = prefix.strip_suffix(";chunk-signature").ok_or(MALFORMED)?;
        let is_size =
            (1..=MAX_DIGITS).contains(&size.len()) && size.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_size {
            return Err(MALFORMED);
        }
        check_signature(algorithm, signature)?;
        Ok(Self {
            size: u64::from_str_radix(size, 16).map_err(|_| MALFORMED)?,
            prefix: format!("{prefix}="),
            width: signature.len(),
        })
    }

    /// The line with another signature, as long as it was.
    pub(super) fn with(&self, signature: &str) -> Result<String, ChunkError> {
        Ok(format!("{}{}\r\n", self.prefix, padded(signature, self.width)?))
    }
}

/// Checks that `text` can be a signature by `algorithm`. Those of SigV4A may be padded.
pub(super) fn check_signature(algorithm: Algorithm, text: &str) -> Result<(), ChunkError> {
    let digits = match algorithm {
        Algorithm::V4 => text,
        Algorithm::V4a => text.trim_end_matches('*'),
    };
    let fits = match algorithm {
        Algorithm::V4 => text.len() == 64,
        Algorithm::V4a => (1..=MAX_SIGNATURE).contains(&text.len()),
    };
    if fits && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(())
    } else {
        Err(ChunkError::Malformed("a signature is malformed"))
    }
}

/// `signature`, padded with `*` to `width` characters.
pub(super) fn padded(signature: &str, width: usize) -> Result<String, ChunkError> {
    if signature.len() > width {
        return Err(ChunkError::SignatureWidth);
    }
    Ok(format!("{signature:*<width$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_read_in_its_exact_form_only() {
        let v4 = "a".repeat(64);
        let v4a = format!("{}**", "b".repeat(142));
        let table = [
            (Algorithm::V4, format!("10000;chunk-signature={v4}\r\n"), Some(65536)),
            (Algorithm::V4, format!("0;chunk-signature={v4}\r\n"), Some(0)),
            (Algorithm::V4, format!("00aF;chunk-signature={v4}\r\n"), Some(175)),
            (Algorithm::V4, format!("ffffffffffffffff;chunk-signature={v4}\r\n"), Some(u64::MAX)),
            (Algorithm::V4a, format!("1;chunk-signature={v4a}\r\n"), Some(1)),
            (Algorithm::V4, format!("1;chunk-signature={v4a}\r\n"), None),
            (Algorithm::V4a, format!("1;chunk-signature=*{v4}\r\n"), None),
            (Algorithm::V4a, "1;chunk-signature=\r\n".to_owned(), None),
            (Algorithm::V4, format!("1;chunk-signature={v4}\n"), None),
            (Algorithm::V4, format!(";chunk-signature={v4}\r\n"), None),
            (Algorithm::V4, format!("+1;chunk-signature={v4}\r\n"), None),
            (Algorithm::V4, format!("-1;chunk-signature={v4}\r\n"), None),
            (Algorithm::V4, format!("1ffffffffffffffff;chunk-signature={v4}\r\n"), None),
            (Algorithm::V4, format!("1; chunk-signature={v4}\r\n"), None),
            (Algorithm::V4, format!("1;a=b;chunk-signature={v4}\r\n"), None),
            (Algorithm::V4, format!("1;chunk-signature={v4};a=b\r\n"), None),
            (Algorithm::V4, "1\r\n".to_owned(), None),
            (Algorithm::V4, "\r\n".to_owned(), None),
        ];
        for (algorithm, line, size) in table {
            let head = ChunkHead::new(algorithm, line.as_bytes());
            assert_eq!(head.as_ref().ok().map(|head| head.size), size, "{line:?}");
            if let Ok(head) = head {
                assert_eq!(head.with("cc").unwrap().len(), line.len());
            }
        }
        assert!(ChunkHead::new(Algorithm::V4, b"\xff;chunk-signature=\r\n").is_err());
    }

    #[test]
    fn signature_longer_than_its_room_is_an_error() {
        assert_eq!(padded("abc", 5), Ok("abc**".to_owned()));
        assert_eq!(padded("abc", 3), Ok("abc".to_owned()));
        assert_eq!(padded("abc", 2), Err(ChunkError::SignatureWidth));
    }
}
