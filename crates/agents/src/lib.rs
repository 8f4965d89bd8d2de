#![doc = include_str!("../README.md")]
//!
//! A profile is a data file in `profiles/`, compiled in. That of Claude Code contains only facts;
//! its command line and its events are code. The lines that another agent prints become events in
//! the form of Claude Code's ([`Translator`]), so that sessions, outcomes and callers handle only
//! one form.

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
