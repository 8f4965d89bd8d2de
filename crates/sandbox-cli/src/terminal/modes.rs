//! Tracks the modes that a program set in a terminal, to reset them, and to set them again in
//! another one.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Terminals have no mode with a larger number, so this bounds the memory.
const LARGEST: u16 = 9999;
/// The maximum number of parameters of a sequence: more than terminals accept.
const NUMBERS: usize = 512;
/// Cursor visibility and line wrapping, which are on initially.
const ON_AT_FIRST: [u16; 2] = [7, 25];
/// The standard mode for no local echo, which is on initially.
const STANDARD_ON_AT_FIRST: [u16; 1] = [12];

/// The modes of a terminal that differ from their initial values, as far as its output shows.
///
/// It parses sequences as terminals do, including obfuscated ones: a missed mode would remain on in
/// the user's shell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Modes {
    /// DEC private modes: alternate screen, mouse, bracketed paste and so on.
    changed: BTreeSet<u16>,
    /// Modes whose state is unknown.
    doubtful: BTreeSet<u16>,
    /// Standard modes: a locked keyboard, insert mode and so on.
    standard: BTreeSet<u16>,
    /// Whether keys are reported in more detail, by one of two protocols.
    reports_keys: bool,
    modifies_keys: bool,
    /// An unterminated sequence.
    begun: Option<Begun>,
}

/// The part of a sequence since ESC.
#[derive(Debug, Clone, Default)]
struct Begun {
    has_bracket: bool,
    private: Option<u8>,
    numbers: Vec<u16>,
    number: Option<u16>,
    /// It does not set modes.
    is_other: bool,
    /// Terminals interpret it differently.
    is_doubtful: bool,
}

impl Begun {
    /// Ends a number.
    fn separate(&mut self) {
        let number = self.number.take().unwrap_or_default();
        if self.numbers.len() < NUMBERS {
            self.numbers.push(number);
        }
    }
}

impl Modes {
    /// Parses output to the terminal, which may be split anywhere.
    pub(crate) fn saw(&mut self, output: &[u8]) {
        for byte in output {
            self.saw_byte(*byte);
        }
    }

    fn saw_byte(&mut self, byte: u8) {
        match (&mut self.begun, byte) {
            (_, 0x1b) => self.begun = Some(Begun::default()),
            // ESC and `[` in one byte, or in the last byte of one character.
            (None, 0x9b) => self.begun = Some(Begun { has_bracket: true, ..Begun::default() }),
            (_, 0x18 | 0x1a) => self.begun = None,
            // Other controls are executed within a sequence, which continues after them.
            (None, _) | (_, ..0x20 | 0x7f) => {}
            (Some(begun), b'[' | 0x9b) if !begun.has_bracket => begun.has_bracket = true,
            (Some(begun), 0x80..) => begun.is_doubtful = true,
            (Some(begun), end) if !begun.has_bracket => {
                self.begun = None;
                if end == b'c' {
                    // A reset, unless it is in a string that a terminal consumes as a whole.
                    self.doubtful.append(&mut self.changed);
                }
            }
            (Some(begun), b'0'..=b'9') => {
                let digit = u16::from(byte - b'0');
                begun.number =
                    Some(begun.number.unwrap_or_default().saturating_mul(10).saturating_add(digit));
            }
            (Some(begun), b';' | b':') => begun.separate(),
            (Some(begun), b'<'..=b'?') => {
                begun.is_doubtful |= begun.private.is_some() || begun.number.is_some();
                (begun.private, begun.number) = (Some(byte), None);
                begun.numbers.clear();
            }
            (Some(begun), b' '..=b'/') => begun.is_other = true,
            (Some(begun), end) => {
                begun.separate();
                let begun = std::mem::take(begun);
                self.begun = None;
                self.obey(&begun, end);
            }
        }
    }

    /// The sequence that resets exactly these modes; empty if no mode was set.
    pub(crate) fn undone(&self) -> String {
        let mut text = String::new();
        for mode in self.changed.union(&self.doubtful) {
            switch(&mut text, "?", *mode, ON_AT_FIRST.contains(mode));
        }
        for mode in &self.standard {
            switch(&mut text, "", *mode, STANDARD_ON_AT_FIRST.contains(mode));
        }
        if self.reports_keys {
            text.push_str("\x1b[<9u");
        }
        if self.modifies_keys {
            text.push_str("\x1b[>4m");
        }
        // Colours, the character set, the keypad.
        text + "\x1b[0m\x1b(B\x0f\x1b>"
    }

    /// The sequence that sets the same modes in another terminal.
    pub(crate) fn redone(&self) -> String {
        let mut text = String::new();
        for mode in &self.changed {
            switch(&mut text, "?", *mode, !ON_AT_FIRST.contains(mode));
        }
        for mode in &self.standard {
            switch(&mut text, "", *mode, !STANDARD_ON_AT_FIRST.contains(mode));
        }
        text
    }

    fn obey(&mut self, begun: &Begun, end: u8) {
        let modes = begun.numbers.iter().copied().filter(|mode| *mode <= LARGEST);
        match (begun.private, end) {
            _ if begun.is_other => {}
            (Some(b'?'), b'h' | b'l') if begun.is_doubtful => self.doubtful.extend(modes),
            // Their saved values are unknown.
            (Some(b'?'), b'r') => self.doubtful.extend(modes),
            (Some(b'?'), b'h' | b'l') => {
                for mode in modes {
                    self.doubtful.remove(&mode);
                    set(&mut self.changed, mode, (end == b'h') != ON_AT_FIRST.contains(&mode));
                }
            }
            (None, b'h' | b'l') => {
                for mode in modes {
                    set(&mut self.standard, mode, (end == b'h') != STANDARD_ON_AT_FIRST.contains(&mode));
                }
            }
            (Some(b'>' | b'='), b'u') => self.reports_keys = true,
            (Some(b'>'), b'm') => self.modifies_keys = true,
            _ => {}
        }
    }
}

fn set(modes: &mut BTreeSet<u16>, mode: u16, is_changed: bool) {
    if is_changed {
        modes.insert(mode);
    } else {
        modes.remove(&mode);
    }
}

fn switch(text: &mut String, private: &str, mode: u16, is_on: bool) {
    // Writing to a string cannot fail.
    let _ = write!(text, "\x1b[{private}{mode}{}", if is_on { 'h' } else { 'l' });
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
    fn exactly_the_set_modes_are_reset() {
        for (output, undone) in [
            ("plain \x1b[31mred", ""),
            ("\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"),
            ("\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", ""),
            ("\x1b[?1000;1006;2004h", "\x1b[?1000l\x1b[?1006l\x1b[?2004l"),
            ("\x1b[?1000h\x1bc", "\x1b[?1000l"),
            ("\x1b[>1u\x1b[>4;2m", "\x1b[<9u\x1b[>4m"),
            ("\x1b]0;title\x07\x1b[?99999999h\x1b[?xh\x1b[?1000 h\x1b[?1000$p", ""),
            ("\x1b[4;20h\x1b[12l", "\x1b[4l\x1b[12h\x1b[20l"),
            ("\x1b[4h\x1b[4l\x1b[12h", ""),
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
    fn obfuscated_modes_are_tracked() {
        let zeros = format!("\x1b[?{}1000h", "0".repeat(200));
        let many: Vec<String> = (3000..9000).map(|mode| format!("\x1b[?{mode}h")).collect();
        let many = format!("{}\x1b[?1000h", many.concat());
        let among = format!("\x1b[?{}1000h", "1;".repeat(40));
        for output in [
            "\x1b[?10\n\x0b00\x07h",
            "\x1b\r[?1000h",
            "\u{9b}?1000h",
            "\x1b[?1000h\x1b[?1000s\x1b[?1000l\x1b[?1000r",
            "\x1b[1\x1b[?1000h",
            "\x1b[1\u{9b}?1000h",
            "\x1b\u{9b}?1000h",
            "\x1b[?1000\u{e9}h",
            "\x1b[?1000h\x1b[?1000\u{e9}l",
            "\x1b[1\x18\x1b[?1000h",
            &zeros,
            &many,
            &among,
        ] {
            let undone = after(&[output]).undone();
            assert!(undone.contains("\x1b[?1000l"), "{output:?}: {undone:?}");
        }
        // The control: terminators of a sequence end it here too.
        for output in ["\x1b[?10\x1800h", "\x1b[?10\x1a00h", "\x1b[?10\x1b00h"] {
            assert_eq!(after(&[output]).undone(), END, "{output:?}");
        }
    }

    #[test]
    fn tracked_state_is_bounded() {
        let mut modes = Modes::default();
        for mode in 0..70_000 {
            modes.saw(format!("\x1b[?{mode}h\x1b[?{mode}r\x1b[{mode}h").as_bytes());
        }
        modes.saw(b"\x1b[");
        modes.saw(&b"1;".repeat(1 << 20));
        assert!(modes.undone().len() < 256 * 1024 && modes.begun.unwrap().numbers.len() <= NUMBERS);
    }
}
