//! Executions: headless Claude Code, or any command, from its launch to its outcome.
//!
//! `launch` brings network, proxy and container up; `drive` moves output and enforces the time limit; `agent` and `command` say
//! what runs and what its end means.

mod aftermath;
mod agent;
mod briefing;
mod capture;
mod command;
mod controls;
mod drive;
mod execution;
mod interact;
mod launch;
mod live;
mod messages;
mod mounts;
mod reading;
mod result;
mod runner;
mod undo;
mod watchdog;

pub(crate) use aftermath::log_git;
pub use agent::{Prompt, Task};
pub(crate) use capture::Capture;
pub use command::{Command, Input};
pub(crate) use drive::{End, Sink, drive};
pub use execution::Execution;
pub(crate) use launch::{ProcessInput, Program, Started, log_sink, plan, start};
pub use messages::Message;
pub(crate) use mounts::{refuse_untrusted, resolved as resolved_mounts, resolver};
pub(crate) use result::text;
pub use result::{CommandResult, ExecutionResult, Timings};
pub(crate) use undo::{close, log_leftover, pair, tear_down};
