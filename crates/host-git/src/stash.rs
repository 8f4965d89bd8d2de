//! The list of stashes: the log of `refs/stash`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::git::{Git, Input};
use crate::object_id::{Format, ObjectId, lines};
use crate::text::is_unseen;

/// The maximum number of entries in a log.
pub(crate) const MOST: usize = 1000;
/// Characters of a message.
const MESSAGE: usize = 500;
/// The valid range of a stash's time in seconds: until the end of 2099. Git treats an entry without
/// a time as broken, and cannot print all later times.
const TIMES: RangeInclusive<u64> = 1..=4_102_444_799;

/// One stash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stash {
    pub(crate) id: ObjectId,
    /// Seconds since 1970.
    time: u64,
    message: String,
}

impl Stash {
    /// A stash of which only the commit is known.
    pub(crate) fn bare(id: ObjectId) -> Self {
        Self { id, time: 0, message: "stash".to_owned() }
    }
}

/// Parses a log, newest entry first; lines that are not entries are skipped. Returns false if lines
/// were skipped or there are too many.
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

/// The host's log entries for `known` in `text`: author, time and message. If an id occurs twice,
/// the older entry counts, since git adds a line for the one that becomes the newest.
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

/// The entries of `stashes` whose commits are not valid stashes: `git stash` fails on them.
pub(crate) fn odd(git: &Git<'_>, stashes: &[Stash]) -> Result<BTreeSet<ObjectId>, Error> {
    if stashes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let wanted = lines("", stashes.iter().map(|stash| &stash.id));
    let arguments = ["rev-list", "--no-walk=unsorted", "--parents", "--ignore-missing", "--stdin"];
    let output = git.read("look at stashes", &arguments, Input::Bytes(wanted.as_bytes()))?;
    // Parents: the base commit, the index and, if there are new files, those.
    let is_stash = |line: &&[u8]| matches!(line.split(|byte| *byte == b' ').count(), 3 | 4);
    let good: BTreeSet<&[u8]> = output
        .split(|byte| *byte == b'\n')
        .filter(is_stash)
        .filter_map(|line| line.split(|byte| *byte == b' ').next())
        .collect();
    let is_odd = |id: &ObjectId| !good.contains(id.as_str().as_bytes());
    Ok(stashes.iter().map(|stash| stash.id.clone()).filter(is_odd).collect())
}

/// The log of `stashes`: the host's own lines unchanged, all others in our own form. A stash
/// without a valid time gets `now`.
pub(crate) fn text(
    stashes: &[Stash],
    own: &BTreeMap<ObjectId, &[u8]>,
    format: Format,
    now: SystemTime,
) -> Vec<u8> {
    let now = now.duration_since(UNIX_EPOCH).map_or(*TIMES.start(), |since| since.as_secs());
    let mut text = Vec::new();
    let mut before = format.nothing();
    for Stash { id, time, message } in stashes.iter().rev() {
        let time = if TIMES.contains(time) { *time } else { now };
        let new = format!("sandbox <sandbox> {time} +0000\t{message}");
        let rest = own.get(id).copied().unwrap_or(new.as_bytes());
        // Writing to a buffer cannot fail.
        let _ = write!(text, "{before} {id} ");
        text.extend_from_slice(rest);
        text.push(b'\n');
        before = id.to_string();
    }
    text
}

/// Parses `OLD NEW NAME <EMAIL> SECONDS ZONE`, a tab, and the message.
fn entry(line: &[u8], format: Format) -> Option<Stash> {
    let tab = line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len());
    let (head, message) = line.split_at_checked(tab)?;
    let mut words = head.split(|byte| *byte == b' ');
    let id = format.id(words.nth(1)?)?;
    let time = words.rev().nth(1).and_then(|time| str::from_utf8(time).ok()?.parse().ok()).unwrap_or(0);
    let message = String::from_utf8_lossy(message);
    let message: String = message.chars().filter(|c| !is_unseen(*c)).take(MESSAGE).collect();
    Some(Stash { id, time, message })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn log_of_stashes_is_rewritten_in_our_own_form() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let zero = "0".repeat(40);
        let log = format!(
            "{zero} {a} Eve <e@x> 1700000000 +0100\tWIP on main: \x1b[2J\u{202e}x\nnonsense\n{a} {b} Eve <e@x> 99 +0100\tOn x: y\n"
        );
        let (stashes, is_whole) = parse(log.as_bytes(), Format::Sha1);
        assert!(!is_whole, "nonsense would be lost");
        let ids: Vec<&str> = stashes.iter().map(|stash| stash.id.as_str()).collect();
        assert_eq!(ids, [&b, &a]);
        let expected = format!(
            "{zero} {a} sandbox <sandbox> 1700000000 +0000\tWIP on main: [2Jx\n{a} {b} sandbox <sandbox> 99 +0000\tOn x: y\n"
        );
        let written = text(&stashes, &BTreeMap::new(), Format::Sha1, UNIX_EPOCH);
        assert_eq!(String::from_utf8_lossy(&written), expected);
        assert_eq!(parse(&written, Format::Sha1), (stashes.clone(), true));
        // The host's entry keeps its own line, byte for byte.
        let line = b"Ann <a@x> 7 -0200\tWIP \xff \x1b";
        let id = Format::Sha1.id(a.as_bytes()).unwrap();
        let host =
            [format!("{zero} {a} ").as_bytes(), line, b"\n", format!("{b} {a} git <g> 9 +0000\n").as_bytes()]
                .concat();
        let known = own(&host, &BTreeSet::from([&id]), Format::Sha1);
        let written = text(&stashes, &known, Format::Sha1, UNIX_EPOCH);
        let first = [format!("{zero} {a} ").as_bytes(), line, b"\n"].concat();
        assert!(written.starts_with(&first), "{}", written.escape_ascii());
    }

    #[test]
    fn stash_without_a_printable_time_gets_the_current_one() {
        let now = UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_001);
        for (time, expected) in [
            ("0", 1_800_000_001),
            ("x", 1_800_000_001),
            ("-5", 1_800_000_001),
            ("4102444799", 4_102_444_799_u64),
            ("4102444800", 1_800_000_001),
            ("18446744073709551615", 1_800_000_001),
        ] {
            let log = format!("{} {} E <e@x> {time} +0000\tx\n", "0".repeat(40), "a".repeat(40));
            let (stashes, _) = parse(log.as_bytes(), Format::Sha1);
            let text = String::from_utf8(text(&stashes, &BTreeMap::new(), Format::Sha1, now)).unwrap();
            assert!(text.contains(&format!("> {expected} +0000\t")), "{time}: {text}");
        }
    }

    #[test]
    fn log_with_too_many_entries_is_incomplete() {
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
