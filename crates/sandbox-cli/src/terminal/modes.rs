//! What a program has switched on in a terminal, so that it can be switched off, and on again in another.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Longer sequences switch nothing.
const LONGEST: usize = 64;
/// As many as there are in use; a program may make up more.
const MOST: usize = 128;
/// The cursor is visible, lines wrap: on from the start.
const ON_AT_FIRST: [u16; 2] = [7, 25];

/// The modes of a terminal that differ from what they are at first, as far as its output shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Modes {
    /// DEC's private modes: the other screen, the mouse, bracketed paste and so on.
    changed: BTreeSet<u16>,
    /// Keys are reported in more detail, in one of two ways.
    reports_keys: bool,
    modifies_keys: bool,
    /// Of a sequence that has not ended: what follows ESC.
    begun: Option<Vec<u8>>,
}

impl Modes {
    /// Takes in what is written to the terminal, cut anywhere.
    pub(crate) fn saw(&mut self, output: &[u8]) {
        for byte in output {
            match (&mut self.begun, byte) {
                (_, 0x1b) => self.begun = Some(Vec::new()),
                (None, _) => {}
                (Some(begun), b'[') if begun.is_empty() => begun.push(b'['),
                (Some(begun), b'c') if begun.is_empty() => *self = Self::default(),
                (Some(begun), b'0'..=b'?') if !begun.is_empty() && begun.len() < LONGEST => begun.push(*byte),
                (Some(begun), end) => {
                    let begun = std::mem::take(begun);
                    self.begun = None;
                    self.obey(&begun, *end);
                }
            }
        }
    }

    /// What switches it all off again, and no more than that: a terminal that nothing was switched on in is left as it is.
    pub(crate) fn undone(&self) -> String {
        let mut text = self.switched(|mode| ON_AT_FIRST.contains(&mode));
        if self.reports_keys {
            text.push_str("\x1b[<9u");
        }
        if self.modifies_keys {
            text.push_str("\x1b[>4m");
        }
        // Colours, the character set, the keypad.
        text + "\x1b[0m\x1b(B\x0f\x1b>"
    }

    /// What switches the same on in another terminal.
    pub(crate) fn redone(&self) -> String {
        self.switched(|mode| !ON_AT_FIRST.contains(&mode))
    }

    fn switched(&self, on: impl Fn(u16) -> bool) -> String {
        self.changed.iter().fold(String::new(), |mut text, mode| {
            // Writing to a string cannot fail.
            let _ = write!(text, "\x1b[?{mode}{}", if on(*mode) { 'h' } else { 'l' });
            text
        })
    }

    fn obey(&mut self, begun: &[u8], end: u8) {
        let Some((private, numbers)) = begun.strip_prefix(b"[").and_then(<[u8]>::split_first) else {
            return;
        };
        match (private, end) {
            (b'?', b'h' | b'l') => {
                let numbers = numbers.split(|byte| *byte == b';');
                let numbers = numbers.filter_map(|number| std::str::from_utf8(number).ok()?.parse().ok());
                for mode in numbers {
                    if (end == b'h') == ON_AT_FIRST.contains(&mode) {
                        self.changed.remove(&mode);
                    } else if self.changed.len() < MOST {
                        self.changed.insert(mode);
                    }
                }
            }
            (b'>' | b'=', b'u') => self.reports_keys = true,
            (b'>', b'm') => self.modifies_keys = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = "\x1b[0m\x1b(B\x0f\x1b>";

    fn after(pieces: &[&str]) -> Modes {
        let mut modes = Modes::default();
        for piece in pieces {
            modes.saw(piece.as_bytes());
        }
        modes
    }

    #[test]
    fn what_was_left_on_is_switched_off_and_nothing_else() {
        for (output, undone) in [
            ("plain \x1b[31mred", ""),
            ("\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"),
            ("\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", ""),
            ("\x1b[?1000;1006;2004h", "\x1b[?1000l\x1b[?1006l\x1b[?2004l"),
            ("\x1b[?1000h\x1bc", ""),
            ("\x1b[>1u\x1b[>4;2m", "\x1b[<9u\x1b[>4m"),
            ("\x1b]0;title\x07\x1b[?99999999h\x1b[?h\x1b[?xh", ""),
        ] {
            let whole = after(&[output]).undone();
            assert_eq!(whole, format!("{undone}{END}"), "{output:?}");
            let bytes: Vec<String> = output.chars().map(String::from).collect();
            let pieces: Vec<&str> = bytes.iter().map(String::as_str).collect();
            assert_eq!(after(&pieces).undone(), whole);
        }
        assert_eq!(after(&["\x1b[?1049h\x1b[?25l"]).redone(), "\x1b[?25l\x1b[?1049h");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut modes = Modes::default();
        for mode in 0..5000 {
            modes.saw(format!("\x1b[?{mode}h").as_bytes());
        }
        modes.saw(b"\x1b[");
        modes.saw(&vec![b'1'; 1 << 20]);
        assert!(modes.changed.len() <= MOST && modes.begun.is_none_or(|begun| begun.len() <= LONGEST));
    }
}
