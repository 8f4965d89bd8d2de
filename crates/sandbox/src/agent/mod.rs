//! The agents that a task can drive: what each one's program, state, arguments and events are.
//!
//! A profile is a file of data in `profiles/`, compiled in. Claude Code has the facts there, and its own command line in `task/agent.rs`. The
//! lines that another agent prints become events in the form of Claude Code's ([`Translator`]), so that sessions, outcomes and callers
//! need to know one form only.

mod arguments;
mod command_line;
mod profile;
mod rules;
mod translator;

pub(crate) use command_line::{Request, Typed};
pub use profile::{Agent, UnknownAgent};
pub(crate) use translator::Translator;
