//! The only way to open host paths from configuration and flags: it follows no link that a task
//! could have created.

mod error;
mod history;
mod identity;
mod resolver;

pub use error::{PathError, PathProblem};
pub use history::{remember, writable_folders};
pub use identity::Identity;
pub use resolver::{Found, Resolver};
