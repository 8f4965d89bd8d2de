//! Mirrors: an upstream's additions are applied, and its removals wait for a request.
//!
//! Three kinds of refs: those that clients see (`refs/heads`, `refs/tags`), those fetched last
//! (`refs/sandbox/fetched`), and those of them that were applied (`refs/sandbox/upstream`). A ref
//! of the upstream has changed if the last two differ.

use std::collections::BTreeSet;
use std::fmt;

use sandbox_files::FileLock;
use serde::{Serialize, Serializer};
use time::OffsetDateTime;

use crate::refs::{self, Refs, Transaction, backup_of};
use crate::{GateError, Repository, git};

const FETCHED: &[u8] = b"refs/sandbox/fetched/";
const TAKEN: &[u8] = b"refs/sandbox/upstream/";
/// How often a change is tried if a push interferes.
const ATTEMPTS: usize = 5;

/// The treatment of branches and tags that the upstream deleted, reset, or replaced by others that
/// lack their commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rewrites {
    /// They remain as they are, and are reported.
    Keep,
    /// They take the upstream's value. Their former value is kept as a backup.
    Apply,
}

/// The result of synchronizing a mirror.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SyncReport {
    /// Refs that have the upstream's value now.
    pub applied: Vec<Change>,
    /// Refs that wait for [`Rewrites::Apply`] because they were rewritten or deleted. Also refs
    /// that another one blocks, as `a` blocks `a/b`, and branches that are not commits.
    pub pending: Vec<Change>,
}

/// A ref that the upstream changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// Its full name, with U+FFFD for bytes that are not UTF-8.
    pub name: String,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The former object, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The upstream's object, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// The kind of an upstream's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// Commits were added.
    Advanced,
    /// It was replaced: commits that are here are missing upstream.
    Rewritten,
    /// It was deleted.
    Deleted,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "created",
            Self::Advanced => "advanced",
            Self::Rewritten => "rewritten",
            Self::Deleted => "deleted",
        })
    }
}

impl Serialize for ChangeKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Repository {
    /// Fetches from the upstream, with the user's git configuration and credentials, and applies
    /// its additions.
    ///
    /// Branches that the upstream does not have, or no longer has, remain as they are if clients
    /// pushed commits to them; if the upstream rewrote such a branch, [`Rewrites::Apply`] takes the
    /// upstream's value and backs up the clients'. Waits for another `sync` of this repository to
    /// end.
    ///
    /// # Errors
    ///
    /// If there is no upstream, git fails, or pushes keep interfering.
    pub async fn sync(&self, rewrites: Rewrites) -> Result<SyncReport, GateError> {
        let Some(upstream) = self.upstream().await? else {
            return Err(GateError::NoUpstream { name: self.name().to_owned() });
        };
        let lock = self.path().join("sandbox-sync.lock");
        let _alone = FileLock::exclusive(&lock).await.map_err(GateError::files("lock", &lock))?;
        let head = self.fetch(&upstream).await?;
        // Refs that block new ones, as `a` blocks `a/b`.
        let gone = match rewrites {
            Rewrites::Keep => Vec::new(),
            Rewrites::Apply => self.change(|kind| kind == ChangeKind::Deleted).await?.applied,
        };
        let keep = rewrites == Rewrites::Keep;
        let rest = |kind| kind != ChangeKind::Deleted && !(keep && kind == ChangeKind::Rewritten);
        let mut report = self.change(rest).await?;
        report.applied.splice(0..0, gone);
        if let Some(head) = head {
            let mut git = git::clean_in(self.path());
            git.args(["symbolic-ref", "HEAD", &head]);
            if let Err(error) = git::read(git, "set the default branch").await {
                tracing::warn!(%error, repository = self.name(), "clones begin with another branch than the upstream's");
            }
        }
        Ok(report)
    }

    /// Updates the record of the upstream; returns the name of its default branch.
    async fn fetch(&self, upstream: &str) -> Result<Option<String>, GateError> {
        let mut look = git::of_user_in(self.path());
        look.args(["ls-remote", "--symref", "--", upstream, "HEAD"]);
        let text = git::read_of_user(look, "reach the upstream").await?;
        let mut fetch = git::of_user_in(self.path());
        fetch.args([
            "fetch",
            "--quiet",
            "--prune",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--refmap=",
        ]);
        fetch.args([
            "--",
            upstream,
            "+refs/heads/*:refs/sandbox/fetched/heads/*",
            "+refs/tags/*:refs/sandbox/fetched/tags/*",
        ]);
        git::read_of_user(fetch, "fetch from the upstream").await?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let head = text.lines().find_map(|line| line.strip_prefix("ref: ")?.strip_suffix("\tHEAD"));
        Ok(head.filter(|head| head.starts_with("refs/heads/")).map(str::to_owned))
    }

    /// Applies the changes of these kinds; all others are pending.
    async fn change(
        &self,
        wanted: impl Fn(ChangeKind) -> bool + Send + Sync,
    ) -> Result<SyncReport, GateError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let there = refs::list(self.path()).await?;
            let mut comparison = Comparison::new(&there, refs::no_commits(self.path()).await?);
            for name in comparison.names() {
                if let Some(kind) = self.kind(&there, name).await {
                    comparison.add(name, kind, &wanted);
                }
            }
            let Comparison { report, forgotten, changes, .. } = comparison;
            // This comes first because it may block others, as `a` blocks `a/b`.
            forgotten.apply(self.path()).await?;
            match changes.apply(self.path()).await {
                Ok(()) => return Ok(report),
                Err(error) if attempts == ATTEMPTS => return Err(error),
                Err(_pushed_meanwhile) => {}
            }
        }
    }

    /// The upstream's change of the ref; `None` if only the record has to be updated.
    async fn kind(&self, there: &Refs, name: &[u8]) -> Option<Kind> {
        let [fetched, taken, own] =
            [FETCHED, TAKEN, b"refs/"].map(|prefix| there.get(&[prefix, name].concat()));
        match (fetched, taken, own) {
            (None, _, None) => Some(Kind::Forgotten),
            (None, taken, Some(old)) => {
                // Once clients have added commits, it is theirs.
                let is_as_taken = taken == Some(old)
                    || match taken {
                        Some(taken) => refs::is_ancestor(self.path(), old, taken).await,
                        None => false,
                    };
                Some(if is_as_taken { Kind::Changed(ChangeKind::Deleted) } else { Kind::Forgotten })
            }
            (Some(_), _, None) => Some(Kind::Changed(ChangeKind::Created)),
            (Some(new), taken, Some(old)) => {
                let branch = name.starts_with(b"heads/");
                if new == old || taken == Some(new) {
                    return (taken != Some(new)).then_some(Kind::Known);
                }
                // Clients may be ahead of it; an upstream that was reset has been rewritten.
                let is_set_back = match taken {
                    Some(taken) => branch && refs::is_ancestor(self.path(), new, taken).await,
                    None => false,
                };
                if branch && !is_set_back && refs::is_ancestor(self.path(), new, old).await {
                    return Some(Kind::Known);
                }
                let forward = branch && refs::is_ancestor(self.path(), old, new).await;
                Some(Kind::Changed(if forward { ChangeKind::Advanced } else { ChangeKind::Rewritten }))
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    /// A ref that clients see changes.
    Changed(ChangeKind),
    /// The upstream's value is here already.
    Known,
    /// It was deleted upstream, and the ref here, if any, belongs to the clients.
    Forgotten,
}

struct Comparison<'a> {
    there: &'a Refs,
    no_commits: BTreeSet<Vec<u8>>,
    now: OffsetDateTime,
    report: SyncReport,
    forgotten: Transaction,
    changes: Transaction,
}

impl<'a> Comparison<'a> {
    fn new(there: &'a Refs, no_commits: BTreeSet<Vec<u8>>) -> Self {
        Self {
            there,
            no_commits,
            now: OffsetDateTime::now_utc(),
            report: SyncReport::default(),
            forgotten: Transaction::default(),
            changes: Transaction::default(),
        }
    }

    /// The names of present and former upstream refs, without `refs/`.
    fn names(&self) -> BTreeSet<&'a [u8]> {
        let below =
            |prefix: &'static [u8]| self.there.keys().filter_map(move |name| name.strip_prefix(prefix));
        below(FETCHED).chain(below(TAKEN)).collect()
    }

    /// Whether another ref blocks a new one: `a` blocks `a/b`, and the other way round.
    fn is_blocked(&self, name: &[u8]) -> bool {
        let above = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = above.filter_map(|(end, _)| name.get(..end));
        let below = [name, b"/"].concat();
        above.any(|name| self.there.contains_key(name))
            || self.there.range(below.clone()..).next().is_some_and(|(name, _)| name.starts_with(&below))
    }

    fn add(&mut self, name: &[u8], kind: Kind, wanted: impl Fn(ChangeKind) -> bool) {
        let there = self.there;
        let own_name = [b"refs/", name].concat();
        let taken_name = [TAKEN, name].concat();
        let [new, taken, old] =
            [[FETCHED, name].concat(), taken_name.clone(), own_name.clone()].map(|name| there.get(&name));
        let kind = match kind {
            Kind::Changed(kind) => kind,
            Kind::Known => return self.remember(&taken_name, taken, new),
            Kind::Forgotten => {
                if let Some(taken) = taken {
                    self.forgotten.delete(&taken_name, taken);
                }
                return;
            }
        };
        let change = Change {
            name: String::from_utf8_lossy(&own_name).into_owned(),
            kind,
            old: old.cloned(),
            new: new.cloned(),
        };
        let is_possible = !self.no_commits.contains(&[FETCHED, name].concat())
            && (old.is_some() || !self.is_blocked(&own_name));
        if !wanted(kind) || !is_possible {
            self.report.pending.push(change);
            return;
        }
        if let (ChangeKind::Rewritten | ChangeKind::Deleted, Some(old)) = (kind, old) {
            self.changes.create(&backup_of(&own_name, old, self.now), old);
        }
        match (new, old) {
            (Some(new), old) => self.changes.update(&own_name, old.map(String::as_str), new),
            (None, Some(old)) => self.changes.delete(&own_name, old),
            (None, None) => {}
        }
        self.remember(&taken_name, taken, new);
        self.report.applied.push(change);
    }

    fn remember(&mut self, name: &[u8], taken: Option<&String>, new: Option<&String>) {
        match (new, taken) {
            (Some(new), taken) => self.changes.update(name, taken.map(String::as_str), new),
            (None, Some(taken)) => self.changes.delete(name, taken),
            (None, None) => {}
        }
    }
}
