//! Amounts as people write them.

/// Bytes: `512m`, `4g`, `1048576`. Units are powers of 1024.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().last()? {
        (at, unit) if unit.is_ascii_alphabetic() => (text.get(..at)?, unit.to_ascii_lowercase()),
        _ => (text, 'b'),
    };
    let shift = match unit {
        'b' => 0,
        'k' => 10,
        'm' => 20,
        'g' => 30,
        't' => 40,
        _ => return None,
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_as_people_write_it() {
        for (text, expected) in [
            ("512m", Some(512 << 20)),
            ("4G", Some(4 << 30)),
            ("1048576", Some(1 << 20)),
            ("7b", Some(7)),
            ("2k", Some(2048)),
            ("1t", Some(1 << 40)),
            ("0", Some(0)),
            ("", None),
            ("m", None),
            ("1.5g", None),
            ("-1m", None),
            ("4 g", None),
            ("4gb", None),
            ("4x", None),
            ("99999999999t", None),
        ] {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }
}
