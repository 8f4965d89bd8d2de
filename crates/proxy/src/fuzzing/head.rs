//! Message heads parsed from the bytes of a fuzzer.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The maximum number of lines of a head, to keep one run short.
const MOST_LINES: usize = 64;

/// The first line, and the rest.
pub(crate) fn first_line(data: &[u8]) -> (&[u8], &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    end.and_then(|end| data.split_at_checked(end))
        .map_or((data, &[]), |(line, rest)| (line, rest.get(1..).unwrap_or_default()))
}

/// Adds each line that is a valid header `NAME: VALUE`.
pub(crate) fn add_headers(headers: &mut HeaderMap, lines: &[u8]) {
    for line in lines.split(|byte| *byte == b'\n').take(MOST_LINES) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
}
