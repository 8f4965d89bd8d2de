//! A work tree that a task changes without changing it: an overlay of the engine's keeps the changes apart, until somebody looks at
//! them, applies them or throws them away.

mod apply;
mod changes;
mod commit;
mod journal;
mod path_text;
mod stage;
mod state;
mod xattr;

pub use apply::{Applied, ApplyOptions};
pub use changes::{Change, ChangeKind, EntryKind, HeldBack};
pub(crate) use state::{CopyInUse, overlay_folders};
pub use state::{Versions, WorkspaceCopy};
