//! How long something may take, as it is written in flags and in the configuration.

use std::time::Duration;

/// The longest time.
const LONGEST: Duration = Duration::from_hours(24);

/// `90s`, `10m`, `2h`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(unit)?;
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(*seconds)
    });
    let time = seconds.map(Duration::from_secs).filter(|time| !time.is_zero() && *time <= LONGEST);
    time.ok_or_else(|| "write a time such as 90s, 10m or 2h, of at most 24h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_a_bound() {
        for (text, seconds) in
            [("90s", Some(90)), ("10m", Some(600)), ("24h", Some(86_400)), ("1440m", Some(86_400))]
        {
            assert_eq!(time(text).ok().map(|time| time.as_secs()), seconds, "{text}");
        }
        for text in [
            "",
            "10",
            "m",
            "0s",
            "25h",
            "-1s",
            "+1s",
            "1.5h",
            "10 m",
            "99999999999999999999h",
            "5124095576030432h",
            "1d",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
