//! Durations, as they are written in flags and in the configuration.

use std::time::Duration;

/// The longest time.
const LONGEST: Duration = Duration::from_hours(24);

/// `90s`, `10m`, `2h` or a number of seconds, above 0 and at most a day.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let time = duration(text).ok().filter(|time| !time.is_zero() && *time <= LONGEST);
    time.ok_or_else(|| "must be a time such as 90s, 10m or 2h, of at most 24h".to_owned())
}

/// `90s`, `10m`, `2h`, `7d` or a number of seconds, including 0.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let unit = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let (number, seconds) = unit.unwrap_or((text, 1));
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
    let total =
        number.parse::<u32>().ok().filter(|_| is_plain).and_then(|number| number.checked_mul(seconds));
    total
        .map(u64::from)
        .map(Duration::from_secs)
        .ok_or_else(|| "must be a time such as 90s, 10m, 2h or 7d, or a number of seconds".to_owned())
}

/// The same, but above 0.
pub(crate) fn limit(text: &str) -> Result<Duration, String> {
    let limit = duration(text)?;
    if limit.is_zero() { Err("a time limit must be above 0".to_owned()) } else { Ok(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_a_maximum() {
        for (text, seconds) in [
            ("90s", Some(90)),
            ("10m", Some(600)),
            ("24h", Some(86_400)),
            ("1440m", Some(86_400)),
            ("10", Some(10)),
        ] {
            assert_eq!(time(text).ok().map(|time| time.as_secs()), seconds, "{text}");
        }
        for text in [
            "",
            "m",
            "0s",
            "25h",
            "-1s",
            "+1s",
            "1.5h",
            "10 m",
            "99999999999999999999h",
            "5124095576030432h",
            "2d",
            "0",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_can_be_zero_or_numbers_of_seconds() {
        for (text, seconds) in [("0", 0), ("600", 600), ("10m", 600), ("7d", 604_800)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "-1", "1.5", "4294967296", "50000d", "1w", "10 m"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(limit("0").is_err() && limit("0m").is_err() && limit("1").is_ok());
    }
}
