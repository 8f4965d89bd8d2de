//! The one way to open what configuration and flags name on the host: no link is followed that a task could have made.

mod error;
mod history;
mod identity;
mod resolver;

pub use error::{PathError, PathProblem};
pub use history::{remember, writable_folders};
pub use identity::Identity;
pub use resolver::{Found, Resolver};
