//! The files that the rules apply to, and findings.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::process::{self, command};
use crate::workspace;

/// One file of the repository.
pub(crate) struct Source {
    /// The path relative to the checkout.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// One violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(formatter, "{}: {}", self.path, self.message),
            line => write!(formatter, "{}:{line}: {}", self.path, self.message),
        }
    }
}

impl Finding {
    /// A finding about a file as a whole, or about something without a line.
    pub(super) fn whole(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: 0, message: message.into() }
    }
}

impl Source {
    pub(super) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    pub(super) fn is_under(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// Whether the whole file is a test, a benchmark or an example.
    pub(super) fn is_test(&self) -> bool {
        self.is_under("tests/")
            || ["/tests/", "/benches/", "/examples/"].iter().any(|folder| self.path.contains(folder))
            || self.path.ends_with("/tests.rs")
    }

    /// The lines before the first test module, numbered from one.
    pub(super) fn program_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().take_while(|(_, line)| *line != "#[cfg(test)]")
    }

    /// All lines, numbered from one.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub(super) fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

/// Whether a line is only a comment.
pub(super) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// All text files in the repository, and untracked ones that are not ignored.
pub(crate) fn sources() -> Result<Vec<Source>> {
    let root = workspace::root();
    let mut git = command("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let listed = process::output(git.current_dir(&root))?;
    let read =
        |path: &str| Some(Source { path: path.to_owned(), text: fs::read_to_string(root.join(path)).ok()? });
    // A listed file that is not readable as text is deleted or binary: no rule applies to it.
    Ok(listed.split_terminator('\0').filter_map(read).collect())
}

#[cfg(test)]
pub(super) fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}
