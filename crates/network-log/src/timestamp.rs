//! Times of records, RFC 3339 in UTC.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// With milliseconds: `2026-02-03T12:34:56.789Z`. A time beyond the year 9999 is shown as the
/// epoch.
pub(crate) fn milliseconds(at_ms: u64) -> String {
    let whole = seconds(at_ms);
    format!("{}.{:03}Z", whole.trim_end_matches('Z'), at_ms % 1000)
}

/// In whole seconds: `2026-02-03T12:34:56Z`.
pub(crate) fn seconds(at_ms: u64) -> String {
    let at = i64::try_from(at_ms / 1000).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    at.unwrap_or(OffsetDateTime::UNIX_EPOCH)
        .format(&Rfc3339)
        .unwrap_or_else(|_| "1970-01-01T00:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_fixed_form() {
        assert_eq!(milliseconds(1_770_122_096_007), "2026-02-03T12:34:56.007Z");
        assert_eq!(seconds(1_770_122_096_999), "2026-02-03T12:34:56Z");
        assert_eq!(seconds(u64::MAX), "1970-01-01T00:00:00Z");
    }
}
