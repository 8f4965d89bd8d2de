//! Reads as much of DER as our own intermediate certificate needs.

use time::{Date, Month, OffsetDateTime, Time};

/// The tag of a `SEQUENCE`.
pub(super) const SEQUENCE: u8 = 0x30;
/// The tag of a `SET`.
pub(super) const SET: u8 = 0x31;
/// The tag of an `OBJECT IDENTIFIER`.
pub(super) const OID: u8 = 0x06;
/// The tag of an `OCTET STRING`.
pub(super) const OCTET_STRING: u8 = 0x04;
/// The tag of a `UTF8String`.
pub(super) const UTF8_STRING: u8 = 0x0c;
/// The tag of a `PrintableString`.
pub(super) const PRINTABLE_STRING: u8 = 0x13;
/// The tag of a `UTCTime`.
const UTC_TIME: u8 = 0x17;
/// The tag of a `GeneralizedTime`.
const GENERALIZED_TIME: u8 = 0x18;

/// Consecutive elements.
#[derive(Debug)]
pub(super) struct Elements<'a>(pub(super) &'a [u8]);

impl<'a> Elements<'a> {
    /// The content of the next element, which must have `tag`.
    pub(super) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    /// Tag and content of the next element; `None` at the end and if the element cannot be read.
    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81 | 0x82 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                (bytes.iter().fold(0, |sum, &byte| (sum << 8) | usize::from(byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

/// The time that an element encodes.
pub(super) fn time((tag, content): (u8, &[u8])) -> Option<OffsetDateTime> {
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i32 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 {
        return None;
    }
    let pair = |at: usize| rest.get(at..at + 2)?.parse::<u8>().ok();
    let date = Date::from_calendar_date(year, Month::try_from(pair(0)?).ok()?, pair(2)?).ok()?;
    let time = Time::from_hms(pair(4)?, pair(6)?, pair(8)?).ok()?;
    Some(date.with_time(time).assume_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed() {
        let cases: &[(u8, &str, Option<i64>)] = &[
            (UTC_TIME, "700101000001Z", Some(1)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (GENERALIZED_TIME, "20000101000000Z", Some(946_684_800)),
            (GENERALIZED_TIME, "20001301000000Z", None),
            (UTC_TIME, "000101000000", None),
            (UTC_TIME, "0001010000Z", None),
            (OID, "000101000000Z", None),
        ];
        for (tag, text, unix) in cases {
            assert_eq!(time((*tag, text.as_bytes())).map(OffsetDateTime::unix_timestamp), *unix, "{text}");
        }
    }

    #[test]
    fn elements_end_at_the_first_unreadable_one() {
        let cases: &[(&[u8], usize)] = &[
            (&[], 0),
            (&[0x30], 0),
            (&[0x30, 1], 0),
            (&[0x30, 0], 1),
            (&[0x04, 0x81, 1, 7, 0x04, 0x82, 0, 1, 9], 2),
            (&[0x04, 0x83, 0, 0, 1, 9], 0),
            (&[0x04, 0x80, 0, 0], 0),
        ];
        for (bytes, count) in cases {
            assert_eq!(Elements(bytes).count(), *count, "{bytes:x?}");
        }
    }
}
