//! What came of a task's work, and what stayed behind, for the one who decides what to do about it.

use serde::Serialize;

/// What an import brings, or brought. Texts in it are a task's: whoever prints them escapes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Refs that the task changed.
    pub refs: Vec<RefChange>,
    /// Where the work tree's `HEAD` is now: `refs/heads/NAME`, or a commit. `None` where it stays.
    pub head: Option<String>,
    /// Whether the index comes.
    pub index: bool,
    /// The operation in progress that comes, or ended: `MERGE_HEAD` or `CHERRY_PICK_HEAD`.
    pub operation: Option<String>,
    /// Stashes that there are now; `None` where they stay as they are.
    pub stashes: Option<usize>,
    /// Settings that the task changed.
    pub settings: Vec<SettingChange>,
    /// Everything else that the task changed.
    pub left: Vec<Left>,
    /// There is more than `left` lists.
    pub more_left: bool,
    /// How to go on where something does not come.
    pub hints: Vec<String>,
}

/// A ref that a task changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefChange {
    /// Its full name.
    pub name: String,
    /// What it is on the host: an object, or the name of another ref.
    pub old: Option<String>,
    /// What the task made it.
    pub new: Option<String>,
    /// What becomes of that.
    pub outcome: RefOutcome,
    /// Where the host's old value stays that is lost otherwise.
    pub backup: Option<String>,
}

/// What becomes of a change of a ref.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefOutcome {
    /// It comes.
    Came,
    /// The host's stays, and the task's is a ref of another name.
    Kept {
        /// The name.
        name: String,
        /// Why.
        why: String,
    },
    /// It stays behind.
    Stayed {
        /// Why.
        why: String,
    },
}

/// A setting that a task changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// Its name, as `git config` takes it.
    pub key: String,
    /// The host's values.
    pub old: Vec<String>,
    /// The task's values; none where it removed the setting.
    pub new: Vec<String>,
    /// Why it stays behind; `None` where it comes.
    pub stays: Option<&'static str>,
}

/// Something that stays behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// A path in the repository.
    pub path: String,
    /// Why.
    pub why: String,
}

impl Report {
    /// Entries of `left`.
    const MOST: usize = 1000;

    /// Whether nothing comes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_without = |change: &RefChange| matches!(change.outcome, RefOutcome::Stayed { .. });
        self.refs.iter().all(is_without)
            && self.settings.iter().all(|change| change.stays.is_some())
            && (self.head.is_none() && !self.index && self.operation.is_none() && self.stashes.is_none())
    }

    pub(crate) fn leave(&mut self, path: impl Into<String>, why: impl Into<String>) {
        if self.left.len() < Self::MOST {
            self.left.push(Left { path: path.into(), why: why.into() });
        } else {
            self.more_left = true;
        }
    }
}
