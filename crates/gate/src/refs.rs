//! Refs of a bare repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tokio::process::Command;

use crate::GateError;
use crate::git;

const BACKUPS: &[u8] = b"refs/sandbox/backup/";

/// Full names of refs, which need not be UTF-8, and the objects that they name.
pub(crate) type Refs = BTreeMap<Vec<u8>, String>;

/// All refs of the repository at `path`.
pub(crate) async fn list(path: &Path) -> Result<Refs, GateError> {
    let mut git = git::clean_in(path);
    git.args(["for-each-ref", "--format=%(objectname) %(refname)"]);
    let text = git::read(git, "list refs").await?;
    let line = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        let (id, name) = line.split_at_checked(at)?;
        Some((name.get(1..)?.to_owned(), String::from_utf8(id.to_owned()).ok()?))
    };
    Ok(text.split(|byte| *byte == b'\n').filter_map(line).collect())
}

/// Names of fetched branches that do not point to commits: git refuses such branches.
pub(crate) async fn no_commits(path: &Path) -> Result<BTreeSet<Vec<u8>>, GateError> {
    let mut git = git::clean_in(path);
    git.args(["for-each-ref", "--format=%(objecttype) %(refname)", "refs/sandbox/fetched/heads"]);
    let text = git::read(git, "list refs").await?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"commit "));
    Ok(lines.filter_map(|line| line.splitn(2, |byte| *byte == b' ').nth(1)).map(<[u8]>::to_vec).collect())
}

/// Whether replacing `old` with `new` loses nothing. Objects that are not commits have no
/// ancestors.
pub(crate) async fn is_ancestor(path: &Path, old: &str, new: &str) -> bool {
    let mut git = git::clean_in(path);
    git.args(["merge-base", "--is-ancestor", old, new]);
    git::ask(git, "compare commits").await.unwrap_or(false)
}

/// The backup name for `old`, which is or was at `name`.
pub(crate) fn backup_of(name: &[u8], old: &str, at: time::OffsetDateTime) -> Vec<u8> {
    let name = name.strip_prefix(b"refs/").unwrap_or(name);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.to_hms();
    let short = old.get(..12).unwrap_or(old);
    // No two backups share a ref, and no client knows the name of one.
    let own = rand::random::<u64>();
    let stamp = format!("/{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z-{short}-{own:016x}");
    [BACKUPS, name, stamp.as_bytes()].concat()
}

/// Changes made in one transaction, each only if the ref still has its expected value.
#[derive(Debug, Default)]
pub(crate) struct Transaction(Vec<u8>);

impl Transaction {
    /// Creates `name` unless it exists.
    pub(crate) fn create(&mut self, name: &[u8], new: &str) {
        self.push(&[b"create ", name, b"\0", new.as_bytes(), b"\0"]);
    }

    /// Replaces `old` with `new`; if `old` is `None`, the ref must not exist.
    pub(crate) fn update(&mut self, name: &[u8], old: Option<&str>, new: &str) {
        match old {
            None => self.create(name, new),
            Some(old) => self.push(&[b"update ", name, b"\0", new.as_bytes(), b"\0", old.as_bytes(), b"\0"]),
        }
    }

    /// Removes `name`.
    pub(crate) fn delete(&mut self, name: &[u8], old: &str) {
        self.push(&[b"delete ", name, b"\0", old.as_bytes(), b"\0"]);
    }

    /// Makes the changes.
    pub(crate) async fn apply(self, path: &Path) -> Result<(), GateError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut git: Command = git::clean_in(path);
        git.args(["update-ref", "--stdin", "-z"]);
        git::write(git, "update refs", &self.0).await.map(drop)
    }

    fn push(&mut self, parts: &[&[u8]]) {
        self.0.extend(parts.concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_name_has_the_ref_and_the_time() {
        let at = time::OffsetDateTime::from_unix_timestamp(1_795_000_000).unwrap();
        let name = backup_of(b"refs/heads/agent/x", &"a1".repeat(20), at);
        let expected = b"refs/sandbox/backup/heads/agent/x/20261118T110640Z-a1a1a1a1a1a1-";
        assert!(name.starts_with(expected) && name.len() == expected.len() + 16);
        assert_ne!(name, backup_of(b"refs/heads/agent/x", &"a1".repeat(20), at));
    }
}
