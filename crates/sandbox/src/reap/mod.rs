//! Who owns what on the engine, and removing what no instance owns any more.
//!
//! Every object carries labels that name its instance, and every living instance holds a lock on a file that those labels name
//! too. An object is removed only when that lock is free.

mod instance;
mod inventory;
mod labels;
mod processes;
mod sweep;

pub(crate) use instance::InstanceLock;
pub use instance::LockError;
pub(crate) use inventory::inventory;
pub use inventory::{Inventory, InventoryInstance, InventoryObject, ObjectKind};
pub(crate) use labels::Labels;
pub use labels::Role;
pub use sweep::SweepReport;
pub(crate) use sweep::{is_alive, others_alive, remove_context, remove_instance, sweep};
