//! A work tree that a task works on without changing it: the engine's overlay stores the changes
//! separately until the user reviews, applies or discards them.

mod apply;
mod change;
mod changes;
mod commit;
mod fail_point;
mod finish;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
mod held;
mod imports;
mod journal;
mod keep;
mod notes;
mod places;
mod repositories;
mod room;
mod seal;
mod stage;
mod state;
mod sync;
mod xattr;

pub use apply::{Applied, ApplyOptions};
pub use change::{Change, ChangeKind, EntryKind, Withheld};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzed::workspace_copy;
pub(crate) use state::{CopyInUse, git_folder, take_outside};
pub use state::{Versions, WorkspaceCopy};
