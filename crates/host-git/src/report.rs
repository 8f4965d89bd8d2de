//! The report of an import: imported and rejected changes, for the caller who decides about them.

use serde::Serialize;

/// The changes that an import makes or made. Its texts come from a task: escape them before
/// printing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Refs that the task changed.
    pub refs: Vec<RefChange>,
    /// The new `HEAD` of the work tree: `refs/heads/NAME`, or a commit. `None` if it does not
    /// change.
    pub head: Option<String>,
    /// Whether the index is imported.
    pub index: bool,
    /// The operation in progress that is imported or has ended: `MERGE_HEAD` or `CHERRY_PICK_HEAD`.
    pub operation: Option<String>,
    /// The number of stashes after the import; `None` if they do not change.
    pub stashes: Option<usize>,
    /// Settings that the task changed.
    pub settings: Vec<SettingChange>,
    /// All other changes of the task.
    pub left: Vec<Left>,
    /// Whether there are more entries than `left` lists.
    pub more_left: bool,
    /// Next steps for the user about changes that are not imported.
    pub hints: Vec<String>,
}

/// A ref that a task changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefChange {
    /// Its full name.
    pub name: String,
    /// The host's value: an object, or the name of another ref.
    pub old: Option<String>,
    /// The task's value.
    pub new: Option<String>,
    /// The outcome of this change.
    pub outcome: RefOutcome,
    /// The ref that keeps the host's old value if that would be lost otherwise.
    pub backup: Option<String>,
}

/// The outcome of a ref's change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefOutcome {
    /// The change is imported.
    Came,
    /// The host's value remains, and the task's becomes a ref of another name.
    Kept {
        /// That name.
        name: String,
        /// The reason.
        why: String,
    },
    /// The change is not imported.
    Stayed {
        /// The reason.
        why: String,
    },
}

/// A setting that a task changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// Its name in the form that `git config` takes.
    pub key: String,
    /// The host's values.
    pub old: Vec<String>,
    /// The task's values; empty if it removed the setting.
    pub new: Vec<String>,
    /// The reason why the change is not imported; `None` if it is.
    pub stays: Option<&'static str>,
}

/// A file or folder that is not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Its path in the repository.
    pub path: String,
    /// The reason.
    pub why: String,
}

impl Report {
    /// The maximum number of entries in `left`.
    const MOST: usize = 1000;

    /// Whether nothing is imported.
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
