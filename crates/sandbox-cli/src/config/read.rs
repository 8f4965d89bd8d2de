//! Reads files that people write.

use std::fmt;
use std::path::Path;

use located_yaml::{InvalidFile, Location};
use sandbox::host_path::{Found, Resolver};
use serde::de::IgnoredAny;

use super::conflict;
use super::file::ConfigFile;
use crate::failure::Failure;

/// The maximum number of errors reported for one file.
const MOST_ERRORS: usize = 20;

/// The maximum size of a file: 16 MiB.
const LONGEST: u64 = 16 << 20;

/// All errors of a configuration; at least one.
#[derive(Debug)]
pub(crate) struct InvalidConfiguration(Vec<InvalidFile>);

impl InvalidConfiguration {
    pub(crate) fn problems(&self) -> &[InvalidFile] {
        &self.0
    }
}

impl fmt::Display for InvalidConfiguration {
    /// One error per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if number == 0 { "" } else { "\n  " })?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidConfiguration {}

/// The `first` error of `text`, and those that appear when top-level entries with errors are
/// removed one after the other.
fn problems(text: &str, label: &str, folder: &Path, first: InvalidFile) -> Vec<InvalidFile> {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut problems = vec![first];
    while let Some(last) = problems.last()
        && problems.len() < MOST_ERRORS
    {
        let at = last.location().position().line;
        let begins_entry = |line: &str| line.starts_with(|c: char| !c.is_whitespace() && c != '#');
        let before = lines.iter().take(at).rposition(|line| begins_entry(line));
        let Some((first, rest)) = before.and_then(|begin| lines.get_mut(begin..)?.split_first_mut()) else {
            break;
        };
        *first = "";
        let end = rest.iter().position(|line| begins_entry(line)).unwrap_or(rest.len());
        rest.iter_mut().take(end).for_each(|line| *line = "");
        let rest = lines.join("\n");
        // A removed entry may have had an anchor that the rest needs.
        if located_yaml::read::<IgnoredAny>(label, &rest).is_err() {
            break;
        }
        match ConfigFile::parse(&rest, label, folder) {
            Ok(_) => break,
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

impl ConfigFile {
    /// Reads the file at `path`, which errors call `label`; `None` if it does not exist. Also
    /// returns the opened path and the text.
    pub(crate) fn read(
        resolver: &Resolver,
        path: &Path,
        label: &str,
    ) -> Result<Option<(Self, Found, String)>, Failure> {
        let Some((found, text)) = read_text(resolver, path, label)? else {
            return Ok(None);
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        match Self::parse(&text, label, folder) {
            Ok(file) => Ok(Some((file, found, text))),
            Err(first) => Err(InvalidConfiguration(problems(&text, label, folder, first)).into()),
        }
    }

    /// The configuration with this text.
    #[cfg(test)]
    pub(crate) fn of_text(yaml: &str) -> Self {
        Self::parse(yaml, "sandbox.yaml", Path::new("/project/.sandbox")).unwrap()
    }

    /// Reads a document; relative paths start at `folder`.
    pub(super) fn parse(text: &str, file: &str, folder: &Path) -> Result<Self, InvalidFile> {
        let read: Self = located_yaml::read_without_nul(file, text)?;
        let complete = read.complete(folder)?;
        conflict::refuse(&complete)?;
        Ok(complete)
    }

    /// The same, with `user` as the fallback.
    ///
    /// # Errors
    ///
    /// If the two contradict each other.
    pub(crate) fn over(self, user: Self) -> Result<Self, InvalidFile> {
        let merged = self.merged(user);
        conflict::refuse(&merged)?;
        Ok(merged)
    }
}

/// The text of the file at `path`, which errors call `label`; `None` if it does not exist.
pub(crate) fn read_text(
    resolver: &Resolver,
    path: &Path,
    label: &str,
) -> Result<Option<(Found, String)>, Failure> {
    let Some((found, bytes)) = resolver.read(path, LONGEST)? else {
        return Ok(None);
    };
    let text = located_yaml::text(&bytes)
        .map_err(|problem| InvalidFile::new(&Location::new(label, problem.position), problem.message))?;
    Ok(Some((found, text.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invalid_entry_is_reported() {
        let problems = |text: &str| {
            let folder = Path::new("/project/.sandbox");
            let first = ConfigFile::parse(text, "s.yaml", folder).unwrap_err();
            let found = problems(text, "s.yaml", folder, first);
            found.iter().map(|problem| problem.location().position().line).collect::<Vec<_>>()
        };
        let text = "workspace: foo\n# a comment\nresource_limits:\n  memory: 4g\n  cpus: -1\nimage: a\nmounts:\n  - nope\nimge: x\n";
        let mut lines = problems(text);
        lines.sort_unstable();
        assert_eq!(lines, [1, 5, 8, 9]);
        // Entries on one line give one error.
        assert_eq!(problems("{workspace: foo, mounts: [nope]}").len(), 1);
        // The rest is not read without the anchor it refers to.
        assert_eq!(problems("mounts: &m [nope]\nprotected_paths: *m\n").len(), 1);
        assert_eq!(problems("a: [\nworkspace: foo").len(), 1);
    }
}
