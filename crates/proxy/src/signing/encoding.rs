//! Percent-encoding as AWS defines it, hexadecimal digits and hashes.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use sha2::{Digest, Sha256};

/// Everything but letters, digits and the four marks that a URI never needs to encode.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same within a path.
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// `bytes` as the name or the value of a parameter.
pub(super) fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, RESERVED).to_string()
}

/// `bytes` as a path.
pub(super) fn encoded_path(bytes: &[u8]) -> String {
    percent_encode(bytes, RESERVED_IN_PATH).to_string()
}

/// The decoded path `text`. A `%` without two digits stays as it is.
pub(super) fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// The decoded name or value of a parameter: there, `+` is a space.
pub(super) fn decoded_parameter(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}

/// `bytes` in lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The SHA-256 hash of `bytes`, in hexadecimal digits.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
