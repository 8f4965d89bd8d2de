//! Mirrors: what an upstream adds is taken over, and what it takes away waits for a word.
//!
//! Three kinds of refs: those that clients see (`refs/heads`, `refs/tags`), what was fetched last (`refs/sandbox/fetched`), and what of
//! that was taken over (`refs/sandbox/upstream`). A ref of the upstream has changed where the last two differ.

use std::collections::BTreeSet;
use std::fmt;

use sandbox_files::FileLock;
use serde::{Serialize, Serializer};
use time::OffsetDateTime;

use crate::refs::{self, Refs, Transaction, backup_of};
use crate::{GateError, Repository, git};

const FETCHED: &[u8] = b"refs/sandbox/fetched/";
const TAKEN: &[u8] = b"refs/sandbox/upstream/";
/// How often a change is tried that a push comes in between of.
const ATTEMPTS: usize = 5;

/// What becomes of branches and tags that the upstream deleted, set back, or replaced by others that lack commits of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rewrites {
    /// They stay as they are, and are reported.
    Keep,
    /// They become what they are upstream. What they were is kept as a backup.
    Apply,
}

/// What became of a mirror.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SyncReport {
    /// What is as it is upstream now.
    pub applied: Vec<Change>,
    /// What waits for [`Rewrites::Apply`]: what was rewritten or deleted. Also what another ref is in the way of, as `a` is of `a/b`, and branches
    /// that are no commits.
    pub pending: Vec<Change>,
}

/// A ref that the upstream changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// Its full name, with U+FFFD where it is not UTF-8.
    pub name: String,
    /// How.
    pub kind: ChangeKind,
    /// The object before, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The object upstream, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// How the upstream changed a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// Commits were added.
    Advanced,
    /// It is another: commits that are here are missing upstream.
    Rewritten,
    /// It is gone.
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
    /// Fetches from the upstream, with the user's configuration of git and credentials, and takes over what it added.
    ///
    /// Branches that the upstream does not have, or no longer, stay as they are if clients pushed commits to them; where the upstream rewrote such a
    /// branch, [`Rewrites::Apply`] takes the upstream's and backs up the clients'. Another `sync` of this repository is waited for.
    ///
    /// # Errors
    ///
    /// When there is no upstream, git fails, or pushes keep coming in between.
    pub async fn sync(&self, rewrites: Rewrites) -> Result<SyncReport, GateError> {
        let Some(upstream) = self.upstream().await? else {
            return Err(GateError::NoUpstream { name: self.name().to_owned() });
        };
        let lock = self.path().join("sandbox-sync.lock");
        let _alone = FileLock::exclusive(&lock).await.map_err(GateError::files("lock", &lock))?;
        let head = self.fetch(&upstream).await?;
        // In the way of what comes, as `a` is of `a/b`.
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

    /// Brings what is known of the upstream up to date; the name of its default branch.
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

    /// Takes over the changes of these kinds; all others are pending.
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
            // First: it may be in the way, as `a` is of `a/b`.
            forgotten.apply(self.path()).await?;
            match changes.apply(self.path()).await {
                Ok(()) => return Ok(report),
                Err(error) if attempts == ATTEMPTS => return Err(error),
                Err(_pushed_meanwhile) => {}
            }
        }
    }

    /// How the upstream changed the ref; `None` where there is nothing to do but to know.
    async fn kind(&self, there: &Refs, name: &[u8]) -> Option<Kind> {
        let [fetched, taken, own] =
            [FETCHED, TAKEN, b"refs/"].map(|prefix| there.get(&[prefix, name].concat()));
        match (fetched, taken, own) {
            (None, _, None) => Some(Kind::Forgotten),
            (None, taken, Some(old)) => {
                // With commits that clients added it is theirs.
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
                // Clients may be ahead of it; an upstream that was set back is another.
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
    /// What clients see changes.
    Changed(ChangeKind),
    /// What is upstream is here already.
    Known,
    /// It is gone upstream, and what is here, if anything, is the clients'.
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

    /// What there is upstream, or was: names without `refs/`.
    fn names(&self) -> BTreeSet<&'a [u8]> {
        let below =
            |prefix: &'static [u8]| self.there.keys().filter_map(move |name| name.strip_prefix(prefix));
        below(FETCHED).chain(below(TAKEN)).collect()
    }

    /// Whether another ref is in the way of a new one: of `a/b` it is `a`, and the other way round.
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
