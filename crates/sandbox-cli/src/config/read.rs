//! Reading files that people write.

use std::fmt;
use std::path::Path;

use located_yaml::{InvalidFile, Location};
use sandbox::host_path::{Found, Resolver};
use serde::de::IgnoredAny;

use super::conflict;
use super::file::ConfigFile;
use crate::failure::Failure;

/// Faults that are looked for in one file.
const MOST_FAULTS: usize = 20;

/// What is longer is none of ours: 16 MiB.
const LONGEST: u64 = 16 << 20;

/// All that is wrong with a configuration: one fault at least.
#[derive(Debug)]
pub(crate) struct InvalidConfiguration(Vec<InvalidFile>);

impl InvalidConfiguration {
    pub(crate) fn faults(&self) -> &[InvalidFile] {
        &self.0
    }
}

impl fmt::Display for InvalidConfiguration {
    /// One in each line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, fault) in self.0.iter().enumerate() {
            write!(f, "{}{fault}", if number == 0 { "" } else { "\n  " })?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidConfiguration {}

/// The `first` fault of `text`, and those that show when the top-level entries with faults are left
/// out one after the other.
fn faults(text: &str, label: &str, folder: &Path, first: InvalidFile) -> Vec<InvalidFile> {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut faults = vec![first];
    while let Some(last) = faults.last()
        && faults.len() < MOST_FAULTS
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
        // What was left out may have had an anchor that the rest needs.
        if located_yaml::read::<IgnoredAny>(label, &rest).is_err() {
            break;
        }
        match ConfigFile::parse(&rest, label, folder) {
            Ok(_) => break,
            Err(fault) => faults.push(fault),
        }
    }
    faults
}

impl ConfigFile {
    /// Reads the file at `path`, which errors call `label`; `None` when it is not there. Gives its
    /// text and what it was found to be as well.
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
            Err(first) => Err(InvalidConfiguration(faults(&text, label, folder, first)).into()),
        }
    }

    /// The configuration with this text.
    #[cfg(test)]
    pub(crate) fn of_text(yaml: &str) -> Self {
        Self::parse(yaml, "sandbox.yaml", Path::new("/project/.sandbox")).unwrap()
    }

    /// Reads a document; `folder` is what relative paths are relative to.
    pub(super) fn parse(text: &str, file: &str, folder: &Path) -> Result<Self, InvalidFile> {
        let read: Self = located_yaml::read_without_nul(file, text)?;
        let complete = read.complete(folder)?;
        conflict::refuse(&complete)?;
        Ok(complete)
    }

    /// The same, and what `user` says where this says nothing.
    ///
    /// # Errors
    ///
    /// When the two contradict each other.
    pub(crate) fn over(self, user: Self) -> Result<Self, InvalidFile> {
        let merged = self.merged(user);
        conflict::refuse(&merged)?;
        Ok(merged)
    }
}

/// The text of the file at `path`, which errors call `label`; `None` when it is not there.
pub(crate) fn read_text(
    resolver: &Resolver,
    path: &Path,
    label: &str,
) -> Result<Option<(Found, String)>, Failure> {
    let Some((found, bytes)) = resolver.read(path, LONGEST)? else {
        return Ok(None);
    };
    let text = located_yaml::text(&bytes)
        .map_err(|fault| InvalidFile::new(&Location::new(label, fault.position), fault.message))?;
    Ok(Some((found, text.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_with_a_fault_is_reported() {
        let faults = |text: &str| {
            let folder = Path::new("/project/.sandbox");
            let first = ConfigFile::parse(text, "s.yaml", folder).unwrap_err();
            let found = faults(text, "s.yaml", folder, first);
            found.iter().map(|fault| fault.location().position().line).collect::<Vec<_>>()
        };
        let text = "workspace: foo\n# a comment\nresource_limits:\n  memory: 4g\n  cpus: -1\nimage: a\nmounts:\n  - nope\nimge: x\n";
        let mut lines = faults(text);
        lines.sort_unstable();
        assert_eq!(lines, [1, 5, 8, 9]);
        // What is in one line has one fault.
        assert_eq!(faults("{workspace: foo, mounts: [nope]}").len(), 1);
        // The rest is not read without what it refers to.
        assert_eq!(faults("mounts: &m [nope]\nprotected_paths: *m\n").len(), 1);
        assert_eq!(faults("a: [\nworkspace: foo").len(), 1);
    }
}
