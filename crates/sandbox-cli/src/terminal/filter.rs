//! Filters a container program's output to the user's terminal: only sequences that draw pass,
//! rewritten in a canonical form.
//!
//! A terminal sends its answers as if the user typed them: to the program, or to the shell after
//! it. On request it also sets the clipboard, reads files and opens links. So only sequences on the
//! lists below reach it.

use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter, Write as _};

use vte::{Params, Parser, Perform};

/// DEC private modes that change how a terminal draws, and what it sends for keys, mouse moves and
/// pasted text. Excluded: reports that some terminals send as soon as they are enabled (focus,
/// colours, sizes), and 132 columns.
const MODES: [u16; 26] = [
    1,
    4,
    5,
    6,
    7,
    8,
    9,
    12,
    25,
    45,
    47,
    66,
    69,
    1000,
    1002,
    1003,
    1005,
    1006,
    1007,
    1015,
    1016,
    1047,
    1048,
    1049,
    2004,
    SYNCHRONIZED,
];
/// The mode for synchronized output.
const SYNCHRONIZED: u16 = 2026;
/// Modes that are harmless after the program's end: if nothing resets modes, no others pass.
const LASTING_MODES: [u16; 3] = [7, 25, SYNCHRONIZED];
/// The standard modes that pass: insert mode, and the cursor of some terminals. Another one would
/// lock the keyboard.
const STANDARD_MODES: [u16; 2] = [4, 34];
/// The number of bytes that are parsed at once.
const PIECE: usize = 4096;
/// Sequences, by the characters before and after their numbers.
const SEQUENCES: [(&[u8], &str); 8] = [
    (b"", "@ABCDEFGHIJKLMPSTXZ`abdefghlmrsu"),
    (b"?", "JKhlrs"),
    (b">", "mu"),
    (b"<", "u"),
    (b"=", "u"),
    (b" ", "q"),
    (b"!", "p"),
    (b"\"", "q"),
];
/// Operating system commands: titles, colours and their resets.
const TITLES: [&[u8]; 3] = [b"0", b"1", b"2"];
const COLOURS: [&[u8]; 12] =
    [b"4", b"10", b"11", b"12", b"17", b"19", b"104", b"110", b"111", b"112", b"117", b"119"];

/// Passes drawing sequences, even if the output is split anywhere.
pub(crate) struct Filter(Option<Box<(Parser, Drawn)>>);

/// The filtered output.
#[derive(Default)]
struct Drawn {
    text: String,
    /// Whether modes that a program sets are reset at its end.
    has_modes: bool,
    /// Inside of `ESC k` and its end, which is a title.
    is_title: bool,
}

impl Filter {
    /// The filter for a stream of this process; it passes everything if that is not a terminal.
    /// `has_modes`: modes that a program sets in the terminal are reset at its end.
    pub(crate) fn new(is_terminal: bool, has_modes: bool) -> Self {
        let drawn = Drawn { has_modes, ..Drawn::default() };
        Self(is_terminal.then(|| Box::new((Parser::new(), drawn))))
    }

    /// The filtered `output` so far: a sequence passes when it is complete.
    pub(crate) fn pass<'a>(&mut self, output: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(state) = &mut self.0 else { return output.into() };
        let (parser, drawn) = &mut **state;
        for piece in output.chunks(PIECE) {
            // The parser loses input after a split character unless that is passed byte by byte.
            let at = piece.iter().position(u8::is_ascii).map_or(piece.len(), |at| at + 1);
            let (begin, rest) = piece.split_at(at);
            begin.chunks(1).for_each(|byte| parser.advance(drawn, byte));
            parser.advance(drawn, rest);
        }
        std::mem::take(&mut drawn.text).into_bytes().into()
    }
}

impl Debug for Filter {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Filter").field(&self.0.is_some()).finish()
    }
}

impl Perform for Drawn {
    fn print(&mut self, c: char) {
        if !c.is_control() && !self.is_title {
            self.text.push(c);
        }
    }

    fn execute(&mut self, byte: u8) {
        self.is_title = false;
        // The bell, cursor movement, and the choice between two character sets.
        if (0x07..=0x0f).contains(&byte) {
            self.text.push(char::from(byte));
        }
    }

    fn csi_dispatch(&mut self, numbers: &Params, marks: &[u8], is_cut: bool, end: char) {
        self.is_title = false;
        let is_title_kept =
            marks.is_empty() && end == 't' && matches!(numbers.iter().next(), Some([22 | 23]));
        let is_listed = SEQUENCES.iter().any(|(of, ends)| *of == marks && ends.contains(end));
        let is_of_keys = matches!(marks, b">" | b"<" | b"=");
        if is_cut || !(is_listed || is_title_kept) || is_of_keys && !self.has_modes {
            return;
        }
        let is_private_mode = marks == b"?" && "hlrs".contains(end);
        let is_mode = is_private_mode || marks.is_empty() && "hl".contains(end);
        let modes: &[u16] = match (is_private_mode, self.has_modes) {
            (true, true) => &MODES,
            (true, false) => &LASTING_MODES,
            (false, _) => &STANDARD_MODES,
        };
        let is_passed = |number: &&[u16]| !is_mode || number.iter().all(|mode| modes.contains(mode));
        let numbers: Vec<String> = numbers
            .iter()
            .filter(is_passed)
            .map(|parts| parts.iter().map(u16::to_string).collect::<Vec<_>>().join(":"))
            .collect();
        if is_mode && numbers.is_empty() {
            return;
        }
        // A missing number is zero.
        let numbers = numbers.join(";");
        let numbers = if numbers == "0" { "" } else { &numbers };
        let (mark, other) = marks.iter().partition::<Vec<u8>, _>(|mark| (b'<'..=b'?').contains(mark));
        let (mark, other) = (String::from_utf8_lossy(&mark), String::from_utf8_lossy(&other));
        // Writing to a string cannot fail.
        let _ = write!(self.text, "\x1b[{mark}{numbers}{other}{end}");
    }

    fn esc_dispatch(&mut self, marks: &[u8], is_cut: bool, end: u8) {
        self.is_title = marks.is_empty() && end == b'k';
        let is_listed = match marks {
            [] => b"78=>DEHMc".contains(&end),
            // Character sets.
            [b'(' | b')' | b'*' | b'+'] => end.is_ascii_alphanumeric(),
            // Double height and width, and the alignment test.
            [b'#'] => (b'3'..=b'6').contains(&end) || end == b'8',
            _ => false,
        };
        if is_listed && !is_cut {
            self.text.push('\x1b');
            self.text.extend(marks.iter().copied().map(char::from));
            self.text.push(char::from(end));
        }
    }

    fn osc_dispatch(&mut self, parts: &[&[u8]], _: bool) {
        self.is_title = false;
        let Some((number, rest)) = parts.split_first() else { return };
        let rest = String::from_utf8_lossy(&rest.join(&b';')).into_owned();
        let is_colour = |c: char| c.is_ascii_alphanumeric() || "#:;/.".contains(c);
        let is_listed = TITLES.contains(number) && !rest.contains(char::is_control)
            // A question mark is a query.
            || COLOURS.contains(number) && rest.chars().all(is_colour);
        if is_listed {
            let number = String::from_utf8_lossy(number);
            // An empty title is valid.
            let end = if rest.is_empty() && !TITLES.contains(&number.as_bytes()) { "" } else { ";" };
            let _ = write!(self.text, "\x1b]{number}{end}{rest}\x1b\\");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(output: &[u8]) -> String {
        let mut filter = Filter::new(true, true);
        String::from_utf8(filter.pass(output).into_owned()).unwrap()
    }

    #[test]
    fn drawing_output_passes_wherever_it_is_split() {
        for output in [
            "plain ä 日本 🦀\r\n\ttext\x08\x07",
            "\x1b[m\x1b[1;31mred\x1b[38;5;200m\x1b[38;2;1;2;3m\x1b[4:3m\x1b[58:2:0:1:2:3m",
            "\x1b[H\x1b[2J\x1b[3;4H\x1b[K\x1b[5A\x1b[2;20r\x1b[?25l\x1b[?1049h\x1b[?1000;1006h\x1b[?2004h\x1b[?2026h",
            "\x1b(0\x0elqqk\x0f\x1b(B\x1b7\x1b8\x1b=\x1b>\x1bM\x1bc\x1b#8",
            "\x1b]0;vim: a;b\x1b\\\x1b]4;1;#ff0000\x1b\\\x1b]11;rgb:00/00/00\x1b\\\x1b]104\x1b\\",
            "\x1b[2 q\x1b[!p\x1b[>1u\x1b[<u\x1b[>4;2m\x1b[22;0t\x1b[23;0t\x1b[s\x1b[u",
        ] {
            assert_eq!(passed(output.as_bytes()), output);
            let mut filter = Filter::new(true, true);
            let bytes = output.as_bytes().iter();
            let pieces: Vec<u8> = bytes.flat_map(|byte| filter.pass(&[*byte]).into_owned()).collect();
            assert_eq!(String::from_utf8_lossy(&pieces), output);
        }
        assert_eq!(passed(b"\x1b]2;title\x07"), "\x1b]2;title\x1b\\");
        assert_eq!(passed(b"\x1b[0m\x1b[0K"), "\x1b[m\x1b[K");
        assert_eq!(passed(b"\x1b]0;\x07\x1bktitle\x1b\\text"), "\x1b]0;\x1b\\text");
        assert_eq!(passed(b"\x1b[4h\x1b[2;4l"), "\x1b[4h\x1b[4l");
    }

    #[test]
    fn split_characters_are_preserved() {
        let output = "я в\nяb\u{301}ä\x1b[31mв 日本x🦀y\r\nя";
        let bytes = output.as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut filter = Filter::new(true, true);
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let passed: Vec<u8> =
                    pieces.iter().flat_map(|piece| filter.pass(piece).into_owned()).collect();
                assert_eq!(String::from_utf8_lossy(&passed), output, "{first} {second}");
            }
        }
    }

    #[test]
    fn modes_pass_only_if_they_are_reset_at_the_end() {
        let output = b"\x1b[?25l\x1b[?1000;1049h\x1b[>1u\x1b[>4;2m\x1b[?25h\x1b[31m";
        assert_eq!(*Filter::new(true, true).pass(output), *output);
        assert_eq!(*Filter::new(true, false).pass(output), *b"\x1b[?25l\x1b[?25h\x1b[31m");
    }

    const HOSTILE: &[&str] = &[
        // Queries for devices, states, modes, sizes, titles and checksums.
        "\x1b[c",
        "\x1b[0c",
        "\x1b[>c",
        "\x1b[=c",
        "\x1bZ",
        "\x05",
        "\x1b[5n",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[?996n",
        "\x1b[x",
        "\x1b[?25$p",
        "\x1b[4$p",
        "\x1b[>q",
        "\x1b[?u",
        "\x1b[?4m",
        "\x1b[1$w",
        "\x1b[2$w",
        "\x1b[1;1;1;1;1;1*y",
        "\x1b[&u",
        "\x1b[1$u",
        "\x1b[?1;1;0S",
        "\x1b[14t",
        "\x1b[18t",
        "\x1b[20t",
        "\x1b[21t",
        "\x1b['|",
        "\x1bP$qm\x1b\\",
        "\x1bP$q\"p\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1b]4;1;?\x07",
        "\x1b]10;?\x07",
        "\x1b]11;?\x1b\\",
        "\x1b]52;c;?\x07",
        // Reports that start with an answer.
        "\x1b[?1004h",
        "\x1b[?2031h",
        "\x1b[?2048h",
        "\x1b[?1004$p",
        // The clipboard, links, files, notices, keys, printers, windows, images and other
        // protocols.
        "\x1b]52;c;ZXZpbA==\x07",
        "\x1b]5522;type=read\x1b\\",
        "\x1b]7;file://x/\x07",
        "\x1b]9;hi\x07",
        "\x1b]50;font\x07",
        "\x1b]777;notify;a;b\x07",
        "\x1b]1337;File=name=eA==:eA==\x07",
        "\x1b]1337;CopyToClipboard=\x07\x1b]1337;EndCopy\x07",
        "\x1b]8;;file:///etc/passwd\x1b\\\x1b]8;;\x1b\\",
        "\x1b]133;A\x07",
        "\x1bPtmux;\x1b\x1b[c\x1b\\",
        "\x1bP0;1|17/evil\x1b\\",
        "\x1bPq#0;2;0;0;0~\x1b\\",
        "\x1b_Gf=24,t=f;L2V0Yy9wYXNzd2Q=\x1b\\",
        "\x1b^private\x1b\\",
        "\x1bXstring\x1b\\",
        "\x1b[5i",
        "\x1b[?5i",
        "\x1b[8;1;1t",
        "\x1b[3;0;0t",
        "\x1b[2t",
        "\x1b[?3h",
        "\x1b[2h",
        "\x1b[12l",
        "\x1b[20h",
        "\x1b[>1t",
        "\x1b[>1p",
        // Sequences that turn other bytes into controls.
        "\x1b G",
        "\x1b F",
        "\x1b%@",
        "\x1b[62;0\"p",
        "\u{9b}c",
        "\u{9d}52;c;eA==\u{9c}",
        "\u{85}",
        "\x7f",
        "\0",
        // Unterminated sequences.
        "\x1b]52;c;eA==",
        "\x1b[6",
        "\x1b",
        "\x1b[6\x18",
        "\x1bP$q",
    ];

    #[test]
    fn output_that_triggers_answers_or_actions_is_removed() {
        for output in HOSTILE {
            let passed = passed(output.as_bytes());
            // Text is harmless without the start of its sequence.
            assert!(!passed.contains(char::is_control), "{output:?}: {passed:?}");
        }
        // Bytes outside of ASCII that are not valid text.
        for output in [
            &b"\x9bc"[..],
            b"\x9d52;c;eA==\x9c",
            b"\xc2",
            b"\xc2\x1b[c",
            b"\xe2\x82",
            b"\xff\x90q",
            b"\xc2\x9b6n",
        ] {
            assert!(!passed(output).contains(char::is_control), "{output:?}");
        }
        let mut filter = Filter::new(true, true);
        let pieces = [&b"\xc2"[..], b"\x9b", b"6n", b"\x1b", b"[", b"6", b"n"];
        let passed: Vec<u8> = pieces.iter().flat_map(|piece| filter.pass(piece).into_owned()).collect();
        assert_eq!(String::from_utf8_lossy(&passed), "6n");
    }

    #[test]
    fn unlisted_parameters_are_removed_from_a_sequence() {
        assert_eq!(passed(b"\x1b[?25;1004;1000h"), "\x1b[?25;1000h");
        assert_eq!(passed(b"a\x1b[31\x05mb\x1b]0;a\x07c"), "a\x1b[31mb\x1b]0;a\x1b\\c");
        assert_eq!(passed(b"\x1b]0;x\x9by\x07"), "\x1b]0;x\u{fffd}y\x1b\\");
        assert_eq!(passed("\x1b]0;x\u{9b}6n\x07".as_bytes()), "");
    }

    #[test]
    fn memory_of_an_endless_sequence_is_bounded() {
        let mut filter = Filter::new(true, true);
        for begin in [&b"\x1b]0;"[..], b"\x1b[1;", b"\x1bPq", b"\x1b_"] {
            let mut drawn = filter.pass(begin).len();
            for _ in 0..64 {
                drawn += filter.pass(&b"1;".repeat(1 << 15)).len();
            }
            drawn += filter.pass(b"\x1b\\").len();
            assert!(drawn < 4096, "{drawn}");
        }
    }

    #[test]
    fn stream_that_is_not_a_terminal_gets_every_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(*Filter::new(false, true).pass(&bytes), *bytes);
    }
}
