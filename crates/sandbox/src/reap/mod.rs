//! Lists the objects on the engine, and removes those that no instance owns any more.
//!
//! Every object carries [`Labels`](crate::labels::Labels) that name its instance, and every living
//! instance holds a lock on a file that those labels name too. An object is removed only when that
//! lock is free.

mod inventory;
mod processes;
mod sweep;

pub(crate) use inventory::inventory;
pub use inventory::{Inventory, InventoryInstance, InventoryObject, ObjectKind};
pub use sweep::SweepReport;
pub(crate) use sweep::{is_alive, others_alive, remove_context, remove_instance, sweep};
