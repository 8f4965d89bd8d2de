//! The subset of PEM that is needed here.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The certificates in `text`, as DER, in order. Anything else between them is skipped, as by every
/// reader of bundles.
pub(in crate::egress) fn certificates(text: &str) -> Vec<Vec<u8>> {
    blocks(text, "CERTIFICATE").filter_map(decode).collect()
}

/// The first complete block of the kind `label`.
pub(super) fn first<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    blocks(text, label).next()
}

/// The blocks of the kind `label`, from their first dash to their last.
fn blocks<'a>(text: &'a str, label: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("-----BEGIN {label}-----");
    let end = format!("-----END {label}-----");
    let mut rest = text;
    std::iter::from_fn(move || {
        let block = rest.get(rest.find(&begin)?..)?;
        let length = block.find(&end)? + end.len();
        let (block, after) = block.split_at_checked(length)?;
        rest = after;
        Some(block)
    })
}

fn decode(block: &str) -> Option<Vec<u8>> {
    let body: String = block
        .lines()
        .filter(|line| !line.starts_with('-'))
        .flat_map(|line| line.split_whitespace())
        .collect();
    BASE64_STANDARD.decode(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_found_among_other_text() {
        let block = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        let text = format!(
            "# comment\n{}-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n{}{}-----BEGIN CERTIFICATE-----\nAQ",
            block("AQ\r\nID"),
            block("not base64"),
            block("BAUG")
        );
        assert_eq!(certificates(&text), [vec![1, 2, 3], vec![4, 5, 6]]);
        assert_eq!(certificates(""), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn first_block_is_returned_whole() {
        let text = "x\n-----BEGIN PRIVATE KEY-----\nAQID\n-----END PRIVATE KEY-----\ny";
        assert_eq!(
            first(text, "PRIVATE KEY"),
            Some("-----BEGIN PRIVATE KEY-----\nAQID\n-----END PRIVATE KEY-----")
        );
        assert_eq!(first(text, "CERTIFICATE"), None);
    }
}
