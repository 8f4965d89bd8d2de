//! What is stashed: the log of `refs/stash`.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::object_id::{Format, ObjectId};

/// Of a log.
const MOST: usize = 1000;
/// Characters of a message.
const MESSAGE: usize = 500;

/// One stash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stash {
    pub(crate) id: ObjectId,
    /// Seconds since 1970.
    time: u64,
    message: String,
}

impl Stash {
    /// A stash of which nothing but the commit is known.
    pub(crate) fn bare(id: ObjectId) -> Self {
        Self { id, time: 0, message: "stash".to_owned() }
    }
}

/// Reads a log; the newest comes first. Lines that are not entries are left out.
pub(crate) fn parse(text: &[u8], format: Format) -> Vec<Stash> {
    let lines = text.split(|byte| *byte == b'\n');
    let mut stashes: Vec<Stash> = lines.filter_map(|line| entry(line, format)).collect();
    stashes.reverse();
    stashes.truncate(MOST);
    stashes
}

/// The log of `stashes`, in our own form.
pub(crate) fn text(stashes: &[Stash], format: Format) -> String {
    let mut text = String::new();
    let mut before = format.nothing();
    for stash in stashes.iter().rev() {
        let Stash { id, time, message } = stash;
        // To a text nothing fails.
        let _ = writeln!(text, "{before} {id} sandbox <sandbox> {time} +0000\t{message}");
        before = id.to_string();
    }
    text
}

/// `OLD NEW NAME <EMAIL> SECONDS ZONE`, a tab, and the message.
fn entry(line: &[u8], format: Format) -> Option<Stash> {
    let tab = line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len());
    let (head, message) = line.split_at_checked(tab)?;
    let mut words = head.split(|byte| *byte == b' ');
    let id = format.id(words.nth(1)?)?;
    let time = words.rev().nth(1).and_then(|time| str::from_utf8(time).ok()?.parse().ok()).unwrap_or(0);
    let message = String::from_utf8_lossy(message);
    let message: String = message.chars().filter(|c| !c.is_control()).take(MESSAGE).collect();
    Some(Stash { id, time, message })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_log_is_written_anew_in_our_own_form() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let zero = "0".repeat(40);
        let log = format!(
            "{zero} {a} Eve <e@x> 1700000000 +0100\tWIP on main: \x1b[2Jx\nnonsense\n{a} {b} Eve <e@x> 99 +0100\tOn x: y\n"
        );
        let stashes = parse(log.as_bytes(), Format::Sha1);
        let ids: Vec<&str> = stashes.iter().map(|stash| stash.id.as_str()).collect();
        assert_eq!(ids, [&b, &a]);
        let expected = format!(
            "{zero} {a} sandbox <sandbox> 1700000000 +0000\tWIP on main: [2Jx\n{a} {b} sandbox <sandbox> 99 +0000\tOn x: y\n"
        );
        let written = text(&stashes, Format::Sha1);
        assert_eq!(written, expected);
        assert_eq!(parse(written.as_bytes(), Format::Sha1), stashes);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: Vec<u8>) {
            parse(&text, Format::Sha1);
        }
    }
}
