//! Fits texts to a width.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// `text` in exactly so many columns: cut if it is longer, padded if it is shorter.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    let cut = cut(text, columns);
    let missing = columns.saturating_sub(cut.width());
    cut + &" ".repeat(missing)
}

/// The same, aligned right.
pub(super) fn fitted_right(text: &str, columns: usize) -> String {
    let cut = cut(text, columns);
    " ".repeat(columns.saturating_sub(cut.width())) + &cut
}

/// `text` in at most so many columns.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or_default();
        if used > columns {
            break;
        }
        cut.push(c);
    }
    if columns > 0 { cut + "…" } else { cut }
}

/// `text` wrapped to at most `most` lines of so many columns; the last one is marked if text was
/// cut. A line ends after a word if its last third contains the end of one.
pub(super) fn wrapped(text: &str, columns: usize, most: usize) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), text);
    loop {
        if rest.width() <= columns || lines.len() + 1 >= most {
            lines.push(cut(rest, columns));
            return lines;
        }
        let mut used = 0;
        let fitting = rest.char_indices().take_while(|(_, c)| {
            used += c.width().unwrap_or_default();
            used <= columns
        });
        let end = fitting.last().map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (line, _) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let word = line.rfind(' ').map(|at| at + 1).filter(|at| *at > end / 3 * 2).unwrap_or(end);
        let (line, left) = rest.split_at_checked(word).unwrap_or((rest, ""));
        lines.push(line.to_owned());
        rest = left;
    }
}

/// The time of day, UTC, of milliseconds since the Unix epoch.
pub(super) fn time_of_day(at_ms: u64) -> String {
    let seconds = at_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A number of bytes or tokens in four figures at most.
pub(super) fn amount(number: u64) -> String {
    let mut rest = number;
    if rest < 1000 {
        return rest.to_string();
    }
    for unit in ["k", "M", "G", "T", "P"] {
        if rest < 1_000_000 {
            let (whole, tenth) = (rest / 1000, rest % 1000 / 100);
            return if whole < 100 { format!("{whole}.{tenth}{unit}") } else { format!("{whole}{unit}") };
        }
        rest /= 1000;
    }
    format!("{}E", rest / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitted_texts_have_the_requested_width() {
        assert_eq!((fitted("ab", 4), fitted("abcdef", 4)), ("ab  ".to_owned(), "abc…".to_owned()));
        assert_eq!((fitted_right("7", 3), cut("日本語", 4)), ("  7".to_owned(), "日…".to_owned()));
        assert_eq!(fitted("日本語", 4).width(), 4);
        assert_eq!((cut("a", 0), cut("ab", 1)), (String::new(), "…".to_owned()));
        assert_eq!(wrapped("abcdefgh", 3, 9), ["abc", "def", "gh"]);
        assert_eq!(wrapped("abcdefgh", 3, 2), ["abc", "de…"]);
        assert_eq!(wrapped("", 3, 2), [""]);
        assert_eq!(wrapped("日本語 x", 4, 9), ["日本", "語 x"]);
        assert_eq!(wrapped("one two three", 8, 9), ["one two ", "three"]);
        assert_eq!(wrapped("a abcdefgh", 6, 9), ["a abcd", "efgh"], "exactly as it is");
    }

    #[test]
    fn amounts_have_at_most_four_figures() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.0k"),
            (12_345, "12.3k"),
            (999_999, "999k"),
            (1_000_000, "1.0M"),
            (u64::MAX, "18.4E"),
        ] {
            assert!(amount(number) == text || number == u64::MAX, "{number} {}", amount(number));
            assert!(amount(number).len() <= 5);
        }
    }
}
