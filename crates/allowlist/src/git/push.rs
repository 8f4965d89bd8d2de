//! The beginning of a push: the refs that it updates, parsed more strictly than by any server.
//!
//! Ambiguous input is refused: packets other than lines and flushes, lines that git does not write,
//! push certificates, which would name the refs a second time.

use super::packet::Packet;
use super::packet::next;
use super::ref_name::is_valid;
use super::ref_name::shown;
use super::rule::GitRule;
use super::rule::RefPattern;
use crate::denial::Denial;
use crate::push_report::PushReport;
use crate::reason::Reason;

/// Maximum size of the commands and options of a push in bytes: some 8,000 refs.
pub(crate) const LIMIT: usize = 1024 * 1024;

/// Maximum number of updates of one push that need a proof.
const UPDATES: usize = 256;
/// Reasons for refusing a ref, as shown by git's client.
const NOT_ALLOWED: &str = "not allowed by policy";
const DELETES: &str = "deletion not allowed by policy";
const LOSES: &str = "not known to keep all commits";
/// Maximum number of `shallow` lines of one push.
const SHALLOW: usize = 4096;

/// Reads the commands of a push and compares them with the rules for its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PushCheck {
    rules: Vec<GitRule>,
    /// The host and path of the repository, for messages.
    host: String,
    /// The number of bytes of the body read so far.
    at: usize,
    phase: Phase,
    /// The number of hexadecimal digits of an object id, known from the first command on.
    digits: usize,
    /// Whether options follow the commands.
    options: bool,
    /// The first rule that allowed something.
    rule: usize,
    /// Updates that must not lose commits.
    updates: Vec<FastForward>,
    /// Commits of `shallow` lines.
    shallow: Vec<Box<[u8]>>,
    /// All commands, if requested.
    commands: Option<Vec<RefUpdate>>,
    report: Box<PushReport>,
    /// The reason to refuse the push once all of its refs are known.
    refusal: Option<Box<Refusal>>,
}

/// Reads the refs that a push updates, for a server without rules.
///
/// ```
/// # fn main() -> Result<(), allowlist::Denial> {
/// let zero = "0".repeat(40);
/// let line = format!("{zero} {} refs/heads/agent/x\0report-status", "1".repeat(40));
/// let push = format!("{:04x}{line}0000PACK…", line.len() + 4);
/// let updates = allowlist::PushReader::default().advance(push.as_bytes(), false)?;
/// assert_eq!(updates.unwrap()[0].name, b"refs/heads/agent/x");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushReader(PushCheck);

/// One ref that a push updates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefUpdate {
    /// The full name of the ref, which need not be UTF-8.
    pub name: Vec<u8>,
    /// The old object, in hexadecimal digits; `None` if the ref is created.
    pub old: Option<String>,
    /// The new object, likewise; `None` if the ref is deleted.
    pub new: Option<String>,
}

/// The updates of a push that must be fast-forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushes {
    /// At least one.
    pub updates: Vec<FastForward>,
    /// Commits whose parents the push omits: a server that accepts this cannot reach the history
    /// before them.
    pub shallow: Vec<Box<[u8]>>,
    /// Offset of the pack in the body.
    pub pack_at: usize,
    report: Box<PushReport>,
}

impl Pushes {
    /// The same updates, which the outer policy of `document` demands.
    pub(crate) fn outside(mut self, document: &str) -> Self {
        for update in &mut self.updates {
            update.document = Some(document.to_owned());
        }
        self
    }

    /// These and the `other` updates of the same push.
    pub(crate) fn and(mut self, other: Self) -> Self {
        for update in other.updates {
            if !self.updates.iter().any(|known| known.place == update.place) {
                self.updates.push(update);
            }
        }
        self
    }

    /// The denial of `update` of these, which is not proven to keep all commits.
    #[must_use]
    pub fn unproven(&self, update: &FastForward) -> Denial {
        let (name, host) = (&update.name, &update.host);
        let before = format!(
            "{name} of this repository of {host} may not lose commits, and the push does not show that it keeps them all: fetch \
             the ref, commit on top of it and push without force, or push to a new ref; to allow it, set `force: true` in the \
             repository's `git` entry"
        );
        let report = PushReport::clone(&self.report).refusing(update.place, name.clone(), LOSES);
        let denial = Denial::of_policy(Reason::RefLost, before, "").of_push(report);
        update.document.iter().fold(denial, |denial, document| denial.outside(document))
    }
}

/// An update of a ref that must not lose commits: `old` must be an ancestor of `new`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FastForward {
    /// The old commit, as 20 or 32 bytes.
    pub old: Box<[u8]>,
    /// The new commit, likewise.
    pub new: Box<[u8]>,
    /// The display form of the ref.
    name: String,
    host: String,
    /// Of its command.
    place: usize,
    /// The document of the outer policy that demands it.
    document: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Only `shallow` lines were received.
    Start,
    /// A command was received.
    Commands,
    /// The options of the push.
    Options,
    /// An empty push, which git sends to test its permission.
    Probe,
    /// Only the pack follows.
    Done,
}

/// The reason to refuse a push: the first ref that may not be updated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    place: usize,
    name: String,
    denial: Denial,
}

/// One line of a push.
struct Command<'a> {
    old: &'a [u8],
    new: &'a [u8],
    name: &'a [u8],
}

impl PushCheck {
    /// A push to a repository of `host` with these rules.
    pub(crate) fn new(rules: Vec<GitRule>, host: String) -> Self {
        Self {
            rules,
            host,
            at: 0,
            phase: Phase::Start,
            digits: 0,
            options: false,
            rule: 0,
            updates: Vec::new(),
            shallow: Vec::new(),
            commands: None,
            report: Box::default(),
            refusal: None,
        }
    }

    /// The condition of the decision.
    pub(crate) fn condition(&self) -> String {
        let patterns: Vec<&str> =
            self.rules.iter().flat_map(|rule| &rule.push).map(RefPattern::as_str).collect();
        format!("if the refs pushed are allowed: {}", patterns.join(", "))
    }

    /// Continues reading; once all commands are known and allowed, returns the position of the rule
    /// that allows them, and the updates that remain to be proven.
    pub(crate) fn advance(
        &mut self,
        so_far: &[u8],
        ended: bool,
    ) -> Result<Option<(usize, Option<Pushes>)>, Denial> {
        loop {
            let rest = so_far.get(self.at..).unwrap_or_default();
            match self.phase {
                Phase::Done => return self.verdict().map(Some),
                Phase::Probe if !rest.is_empty() => return Err(unreadable("data follows a push of nothing")),
                Phase::Probe => return Ok(ended.then_some((self.rule, None))),
                Phase::Start | Phase::Commands | Phase::Options => {}
            }
            let packet = next(rest).map_err(|_| unreadable("it is not made of packet lines"))?;
            let Some((packet, length)) = packet else {
                if ended {
                    return Err(unreadable("it ends too early"));
                }
                return if so_far.len() > LIMIT { Err(too_long()) } else { Ok(None) };
            };
            self.at = self.at.saturating_add(length);
            if self.at > LIMIT {
                return Err(too_long());
            }
            self.packet(packet)?;
        }
    }

    fn verdict(&mut self) -> Result<(usize, Option<Pushes>), Denial> {
        let report = std::mem::take(&mut self.report);
        if let Some(Refusal { place, name, denial }) = self.refusal.take().map(|refusal| *refusal) {
            let why = if denial.reason() == Reason::RefLost { DELETES } else { NOT_ALLOWED };
            return Err(denial.of_push(report.refusing(place, name, why)));
        }
        let updates = std::mem::take(&mut self.updates);
        let shallow = std::mem::take(&mut self.shallow);
        let pushes = (!updates.is_empty()).then_some(Pushes { updates, shallow, pack_at: self.at, report });
        Ok((self.rule, pushes))
    }

    fn packet(&mut self, packet: Packet<'_>) -> Result<(), Denial> {
        self.phase = match (self.phase, packet) {
            (Phase::Start, Packet::Line(line)) if line.starts_with(b"shallow ") => {
                let id = line.strip_prefix(b"shallow ").unwrap_or_default();
                if !is_id(id) {
                    return Err(unreadable("a `shallow` line names no commit"));
                }
                if self.shallow.len() >= SHALLOW {
                    return Err(too_long());
                }
                self.shallow.push(bytes(id));
                Phase::Start
            }
            (Phase::Start, Packet::Line(line)) => self.first(line)?,
            (Phase::Commands, Packet::Line(line)) => self.command(line)?,
            // After `shallow` lines, git never sends an empty push.
            (Phase::Start, Packet::Flush) if self.at > 4 => return Err(unreadable("it has no commands")),
            (Phase::Start, Packet::Flush) => Phase::Probe,
            (Phase::Commands, Packet::Flush) if self.options => Phase::Options,
            (Phase::Options, Packet::Line(_)) => Phase::Options,
            (_, Packet::Flush) | (Phase::Probe | Phase::Done, Packet::Line(_)) => Phase::Done,
        };
        Ok(())
    }

    /// The first command, which also has the client's capabilities.
    fn first(&mut self, line: &[u8]) -> Result<Phase, Denial> {
        let mut parts = line.splitn(2, |byte| *byte == 0);
        let command = parts.next().unwrap_or_default();
        if command == b"push-cert" {
            return Err(Denial::body("signed pushes cannot be checked", "push with `--no-signed`"));
        }
        let mut format = b"sha1".as_slice();
        for word in
            parts.next().unwrap_or_default().split(|byte| *byte == b' ').filter(|word| !word.is_empty())
        {
            if !word.iter().all(u8::is_ascii_graphic) {
                return Err(unreadable("its capabilities are not words"));
            }
            self.report.capability(word);
            match word.split(|byte| *byte == b'=').next() {
                Some(b"push-options") if word == b"push-options" => self.options = true,
                Some(b"push-options") => return Err(unreadable("its capabilities cannot be read")),
                Some(b"object-format") => format = word.get(b"object-format=".len()..).unwrap_or_default(),
                _ => {}
            }
        }
        self.digits = match format {
            b"sha1" => 40,
            b"sha256" => 64,
            _ => return Err(unreadable("its object format is unknown")),
        };
        self.command(command)
    }

    fn command(&mut self, line: &[u8]) -> Result<Phase, Denial> {
        let command =
            Command::read(line, self.digits).ok_or_else(|| unreadable("one of its commands is malformed"))?;
        if !is_valid(command.name) {
            return Err(unreadable(&format!("{} is not a valid name of a ref", shown(command.name))));
        }
        let place = self.report.name(command.name);
        if self.refusal.is_some() {
            return Ok(Phase::Commands);
        }
        let position = match self.judge(&command) {
            Ok(position) => position,
            Err(denial) => {
                self.refusal = Some(Box::new(Refusal { place, name: shown(command.name), denial }));
                return Ok(Phase::Commands);
            }
        };
        if let Some(commands) = &mut self.commands {
            commands.push(command.to_update());
        }
        if self.phase == Phase::Start {
            self.rule = position;
        }
        let free = |rule: &GitRule| rule.force && rule.covers(command.name);
        let update = !is_zero(command.old) && !is_zero(command.new) && command.old != command.new;
        if update && !self.rules.iter().any(free) {
            if self.updates.len() >= UPDATES {
                return Err(Denial::body(
                    "a push may update 256 refs at most that exist already, unless `force: true` is set",
                    "push fewer refs at once",
                ));
            }
            self.updates.push(FastForward {
                old: bytes(command.old),
                new: bytes(command.new),
                name: shown(command.name),
                host: self.host.clone(),
                place,
                document: None,
            });
        }
        Ok(Phase::Commands)
    }

    /// The position of the rule that allows `command`.
    fn judge(&self, command: &Command<'_>) -> Result<usize, Denial> {
        let name = shown(command.name);
        if !self.rules.iter().any(|rule| rule.covers(command.name)) {
            let before = format!(
                "{name} of this repository of {} may not be pushed: push to another ref, or to allow it, add it to `push` \
                 of the repository's `git` entry",
                self.host
            );
            return Err(Denial::of_policy(Reason::RefNotAllowed, before, ""));
        }
        let allows = |rule: &GitRule| rule.covers(command.name) && (rule.delete || !is_zero(command.new));
        self.rules.iter().position(allows).ok_or_else(|| {
            let before = format!(
                "{name} of this repository of {} may not be deleted: to allow it, set `delete: true` in the repository's \
                 `git` entry",
                self.host
            );
            Denial::of_policy(Reason::RefLost, before, "")
        })
    }
}

impl Default for PushReader {
    fn default() -> Self {
        let any = GitRule { push: vec![RefPattern::any()], force: true, delete: true };
        Self(PushCheck { commands: Some(Vec::new()), ..PushCheck::new(vec![any], String::new()) })
    }
}

impl PushReader {
    /// Maximum number of bytes of the body that must be read.
    pub const LIMIT: usize = LIMIT;

    /// Continues reading. `so_far` is the body received so far, from its first byte, and `ended`
    /// whether nothing follows. `None` if more is needed.
    ///
    /// # Errors
    ///
    /// If the push is ambiguous, is signed, or names more refs than fit into [`LIMIT`](Self::LIMIT)
    /// bytes.
    pub fn advance(&mut self, so_far: &[u8], ended: bool) -> Result<Option<Vec<RefUpdate>>, Denial> {
        let known = self.0.advance(so_far, ended)?;
        Ok(known.map(|_| self.0.commands.take().unwrap_or_default()))
    }
}

impl<'a> Command<'a> {
    fn to_update(&self) -> RefUpdate {
        let id = |id: &[u8]| (!is_zero(id)).then(|| String::from_utf8_lossy(id).into_owned());
        RefUpdate { name: self.name.to_owned(), old: id(self.old), new: id(self.new) }
    }

    fn read(line: &'a [u8], digits: usize) -> Option<Self> {
        let (old, rest) = line.split_at_checked(digits)?;
        let (new, name) = rest.strip_prefix(b" ")?.split_at_checked(digits)?;
        let name = name.strip_prefix(b" ")?;
        let whole = [old, new].into_iter().all(|id| id.iter().all(|byte| is_digit(*byte)));
        (whole && !name.is_empty()).then_some(Self { old, new, name })
    }
}

fn is_id(text: &[u8]) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(|byte| is_digit(*byte))
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The bytes that hexadecimal digits encode.
fn bytes(digits: &[u8]) -> Box<[u8]> {
    let value = |digit: &u8| {
        if digit.is_ascii_digit() { digit - b'0' } else { digit.wrapping_sub(b'a').wrapping_add(10) & 15 }
    };
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | value(digit))).collect()
}

fn is_zero(id: &[u8]) -> bool {
    id.iter().all(|byte| *byte == b'0')
}

fn unreadable(problem: &str) -> Denial {
    Denial::body(&format!("the push cannot be read, since {problem}"), "push with git itself")
}

fn too_long() -> Denial {
    Denial::body(
        "the push names more refs or shallow commits than can be checked",
        "push fewer refs at once, from a deeper clone",
    )
}

#[cfg(test)]
mod tests;
