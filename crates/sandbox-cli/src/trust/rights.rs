//! The rights that a file of the project gives, one line each.

use std::collections::BTreeSet;

use crate::printer::sanitize_line;

/// The rights of a run, one per line. No name in them can add or break a line. Sorted, without
/// duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    lines: BTreeSet<String>,
    /// The rights that need the user's consent.
    asked: BTreeSet<String>,
}

impl Rights {
    /// Adds a right that needs the user's consent.
    pub(crate) fn ask(&mut self, line: impl AsRef<str>) {
        self.asked.insert(sanitize_line(line.as_ref()));
        self.tell(line);
    }

    /// Adds a line that needs no trust by itself: a limit, or a default right. It is listed because
    /// its change is a change of rights.
    pub(crate) fn tell(&mut self, line: impl AsRef<str>) {
        self.lines.insert(sanitize_line(line.as_ref()));
    }

    /// Adds all of `other`.
    pub(crate) fn extend(&mut self, other: Self) {
        self.lines.extend(other.lines);
        self.asked.extend(other.asked);
    }

    /// Whether the user must agree.
    pub(crate) fn need_trust(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether a user who agreed to `lines` agreed to all of them.
    pub(crate) fn are_among(&self, lines: &BTreeSet<String>) -> bool {
        self.asked.is_subset(lines)
    }

    pub(crate) fn lines(&self) -> &BTreeSet<String> {
        &self.lines
    }
}
