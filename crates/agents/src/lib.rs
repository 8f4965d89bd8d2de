#![doc = include_str!("../README.md")]
//!
//! A profile is a file of data in `profiles/`, compiled in. Claude Code has the facts there, and
//! its own command line and events. The lines that another agent prints become events in the form
//! of Claude Code's ([`Translator`]), so that sessions, outcomes and callers need to know one form
//! only.

mod arguments;
mod briefing;
mod claude;
mod command_line;
mod outcome;
mod profile;
mod request;
mod rules;
mod templates;
mod translator;

pub use arguments::{InvalidArgument, is_session_id};
pub use briefing::{MountedPath, NetworkAccess, Surroundings};
pub use claude::{CLAUDE_ANSWERS, claude_answers, claude_session_file};
pub use outcome::{Ended, Evidence, Outcome};
pub use profile::{Agent, MountedProgram, UnknownAgent};
pub use request::{Request, Typed};
pub use translator::Translator;
