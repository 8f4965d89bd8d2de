//! What a file of the project says of rights, a line each.

use std::collections::BTreeSet;

use crate::printer::sanitize_line;

/// Lines that say what a run may do, each whole and no longer than one line whatever a name in it
/// says; sorted, none twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    lines: BTreeSet<String>,
    /// Those of them that a run has only where the user agreed.
    asked: BTreeSet<String>,
}

impl Rights {
    /// Adds a right that a run has only where the user agreed.
    pub(crate) fn ask(&mut self, line: impl AsRef<str>) {
        self.asked.insert(sanitize_line(line.as_ref()));
        self.tell(line);
    }

    /// Adds what needs no trust by itself: a limit, or what every run may do. Its change is one of
    /// rights, which has to be seen.
    pub(crate) fn tell(&mut self, line: impl AsRef<str>) {
        self.lines.insert(sanitize_line(line.as_ref()));
    }

    /// Adds all of `other`.
    pub(crate) fn extend(&mut self, other: Self) {
        self.lines.extend(other.lines);
        self.asked.extend(other.asked);
    }

    /// Whether the user has to agree.
    pub(crate) fn need_trust(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether the user agreed to all of them who agreed to the `lines`.
    pub(crate) fn are_among(&self, lines: &BTreeSet<String>) -> bool {
        self.asked.is_subset(lines)
    }

    pub(crate) fn lines(&self) -> &BTreeSet<String> {
        &self.lines
    }
}
