//! The parts of `demo`: an internet in a container, a project that uses the sandbox, and the
//! output.

mod project;
mod show;
mod stand_in;

pub(crate) use self::project::{ALLOWLIST, Api, KEY, Project, Settings};
pub(crate) use self::show::{block, command_line, heading};
pub(crate) use self::stand_in::StandIn;
