//! The time of a signature.

use std::time::SystemTime;

use time::format_description::well_known::Rfc2822;
use time::{Date, Month, OffsetDateTime, Time, UtcOffset};

/// When a request was signed: as AWS writes it (`20150830T123600Z`), and as a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timestamp {
    text: String,
    time: SystemTime,
}

impl Timestamp {
    /// Reads the form that AWS itself uses.
    pub(super) fn basic(text: &str) -> Option<Self> {
        let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
        let clock = match *digits::<3>(clock, [2, 2, 2])?.as_slice() {
            [hour, minute, second] => {
                Time::from_hms(hour.try_into().ok()?, minute.try_into().ok()?, second.try_into().ok()?)
                    .ok()?
            }
            _ => return None,
        };
        Some(Self { text: text.to_owned(), time: OffsetDateTime::new_utc(day(date)?, clock).into() })
    }

    /// Reads the form of the `Date` header.
    pub(super) fn of_date_header(text: &str) -> Option<Self> {
        let time = OffsetDateTime::parse(text, &Rfc2822)
            .ok()?
            // The last hours of the year 9999 may not exist in UTC.
            .checked_to_offset(UtcOffset::UTC)?;
        let text = format!(
            "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
            time.year(),
            u8::from(time.month()),
            time.day(),
            time.hour(),
            time.minute(),
            time.second()
        );
        Self::basic(&text)
    }

    /// The text that is signed.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// As a time.
    pub(super) fn time(&self) -> SystemTime {
        self.time
    }
}

/// The beginning of the day `text` (`20150830`).
pub(super) fn midnight(text: &str) -> Option<SystemTime> {
    Some(OffsetDateTime::new_utc(day(text)?, Time::MIDNIGHT).into())
}

fn day(text: &str) -> Option<Date> {
    match *digits::<3>(text, [4, 2, 2])?.as_slice() {
        [year, month, day] => Date::from_calendar_date(
            year.into(),
            Month::try_from(u8::try_from(month).ok()?).ok()?,
            day.try_into().ok()?,
        )
        .ok(),
        _ => None,
    }
}

/// The numbers in `text`, which must consist of digits in groups of these widths.
fn digits<const N: usize>(text: &str, widths: [usize; N]) -> Option<Vec<u16>> {
    let fits = text.len() == widths.iter().sum::<usize>() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut rest = fits.then_some(text)?;
    widths
        .into_iter()
        .map(|width| {
            let (number, after) = rest.split_at_checked(width)?;
            rest = after;
            number.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_form_is_read_strictly() {
        let table = [
            ("20150830T123600Z", Some(1_440_938_160)),
            ("19700101T000000Z", Some(0)),
            ("20240229T235959Z", Some(1_709_251_199)),
            ("20230229T000000Z", None),
            ("20150830T246000Z", None),
            ("20150830T123600", None),
            ("20150830T12360Z", None),
            ("20150830 123600Z", None),
            ("+0150830T123600Z", None),
            ("2015083\u{661}T123600Z", None),
            ("", None),
        ];
        for (text, seconds) in table {
            let read = Timestamp::basic(text).map(|stamp| {
                stamp.time().duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs())
            });
            assert_eq!(read.transpose().unwrap(), seconds, "{text}");
        }
    }

    #[test]
    fn date_header_is_signed_in_the_basic_form() {
        let read = Timestamp::of_date_header("Sun, 30 Aug 2015 12:36:00 GMT").unwrap();
        assert_eq!(read, Timestamp::basic("20150830T123600Z").unwrap());
        assert_eq!(Timestamp::of_date_header("yesterday"), None);
    }

    #[test]
    fn day_is_read_strictly() {
        assert_eq!(midnight("19700101"), Some(SystemTime::UNIX_EPOCH));
        for text in ["", "1970010", "19700132", "19701301", "1970-1-1"] {
            assert_eq!(midnight(text), None, "{text}");
        }
    }
}
