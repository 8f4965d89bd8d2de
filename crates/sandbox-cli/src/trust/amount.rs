//! Formats amounts as people write them in files, exact to the byte and second.

/// Bytes, as in 4g.
pub(crate) fn size(bytes: u64) -> String {
    whole(bytes, &[(1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")], "b")
}

/// Seconds, as in 10m.
pub(crate) fn time(seconds: u64) -> String {
    whole(seconds, &[(3600, "h"), (60, "m")], "s")
}

/// In the largest of `units` without a remainder, otherwise in the `smallest`.
fn whole(amount: u64, units: &[(u64, &str)], smallest: &str) -> String {
    let fits = units.iter().find(|(unit, _)| amount > 0 && amount.is_multiple_of(*unit));
    let (unit, name) = fits.copied().unwrap_or((1, smallest));
    format!("{}{name}", amount / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_is_in_the_largest_unit_without_remainder() {
        assert_eq!([4 << 30, 1536 << 20, 1025, 0].map(size), ["4g", "1536m", "1025b", "0b"]);
        assert_eq!([7200, 5400, 61, 0].map(time), ["2h", "90m", "61s", "0s"]);
    }
}
