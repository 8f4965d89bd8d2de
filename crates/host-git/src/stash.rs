//! What is stashed: the log of `refs/stash`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use serde::{Deserialize, Serialize};

use crate::object_id::{Format, ObjectId};

/// Of a log.
pub(crate) const MOST: usize = 1000;
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

/// Reads a log; the newest comes first. Lines that are not entries are left out. Whether it has no other ones, and no more than are read.
pub(crate) fn parse(text: &[u8], format: Format) -> (Vec<Stash>, bool) {
    let mut stashes = Vec::new();
    let mut is_whole = true;
    for line in text.split(|byte| *byte == b'\n').rev().filter(|line| !line.is_empty()) {
        match entry(line, format) {
            Some(stash) if stashes.len() < MOST => stashes.push(stash),
            _ => is_whole = false,
        }
    }
    (stashes, is_whole)
}

/// What the log `text` of the host says of each of `known`: who stashed it, when, and the message. Where it has one twice, the older counts,
/// since git adds a line for what becomes the newest.
pub(crate) fn own<'a>(
    text: &'a [u8],
    known: &BTreeSet<&ObjectId>,
    format: Format,
) -> BTreeMap<ObjectId, &'a [u8]> {
    let mut own = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = line.splitn(3, |byte| *byte == b' ').skip(1);
        let (Some(id), Some(rest)) = (words.next().and_then(|id| format.id(id)), words.next()) else {
            continue;
        };
        if known.contains(&id) {
            own.entry(id).or_insert(rest);
        }
    }
    own
}

/// The log of `stashes`: the host's own lines as they are, all others in our own form.
pub(crate) fn text(stashes: &[Stash], own: &BTreeMap<ObjectId, &[u8]>, format: Format) -> Vec<u8> {
    let mut text = Vec::new();
    let mut before = format.nothing();
    for Stash { id, time, message } in stashes.iter().rev() {
        let new = format!("sandbox <sandbox> {time} +0000\t{message}");
        let rest = own.get(id).copied().unwrap_or(new.as_bytes());
        // To a text nothing fails.
        let _ = write!(text, "{before} {id} ");
        text.extend_from_slice(rest);
        text.push(b'\n');
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
        let (stashes, is_whole) = parse(log.as_bytes(), Format::Sha1);
        assert!(!is_whole, "nonsense would be lost");
        let ids: Vec<&str> = stashes.iter().map(|stash| stash.id.as_str()).collect();
        assert_eq!(ids, [&b, &a]);
        let expected = format!(
            "{zero} {a} sandbox <sandbox> 1700000000 +0000\tWIP on main: [2Jx\n{a} {b} sandbox <sandbox> 99 +0000\tOn x: y\n"
        );
        let written = text(&stashes, &BTreeMap::new(), Format::Sha1);
        assert_eq!(String::from_utf8_lossy(&written), expected);
        assert_eq!(parse(&written, Format::Sha1), (stashes.clone(), true));
        // What the host had keeps its own line, byte for byte.
        let line = b"Ann <a@x> 7 -0200\tWIP \xff \x1b";
        let id = Format::Sha1.id(a.as_bytes()).unwrap();
        let host =
            [format!("{zero} {a} ").as_bytes(), line, b"\n", format!("{b} {a} git <g> 9 +0000\n").as_bytes()]
                .concat();
        let known = own(&host, &BTreeSet::from([&id]), Format::Sha1);
        let written = text(&stashes, &known, Format::Sha1);
        let first = [format!("{zero} {a} ").as_bytes(), line, b"\n"].concat();
        assert!(written.starts_with(&first), "{}", written.escape_ascii());
    }

    #[test]
    fn a_log_with_more_than_is_read_is_not_whole() {
        let line = format!("{} {} A <a> 1 +0000\tx\n", "0".repeat(40), "a".repeat(40));
        for (count, expected) in [(MOST, true), (MOST + 1, false)] {
            let (stashes, is_whole) = parse(line.repeat(count).as_bytes(), Format::Sha1);
            assert_eq!((stashes.len(), is_whole), (MOST, expected));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: Vec<u8>) {
            parse(&text, Format::Sha1);
            own(&text, &BTreeSet::new(), Format::Sha1);
        }
    }
}
