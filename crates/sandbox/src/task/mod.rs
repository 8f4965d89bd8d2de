//! Executions of headless agents and of any command, from launch to outcome.
//!
//! `launch` sets up network, proxy and container, for detached runs as well; `drive` moves output
//! and enforces the time limit; `agent` and `command` define the program and the meaning of its
//! end.

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
mod rollback;
mod runner;
mod teardown;
mod watchdog;

pub use agent::{Prompt, Task};
pub(crate) use capture::Capture;
pub use command::{Command, Input};
pub(crate) use drive::{End, Sink, drive};
pub use execution::Execution;
pub(crate) use launch::{Detached, Prepared, ProcessInput, Program, Started, start};
pub use messages::Message;
pub(crate) use mounts::{refuse_untrusted, resolved as resolved_mounts, resolver};
pub(crate) use result::text;
pub use result::{CommandResult, ExecutionResult, Timings};
pub(crate) use rollback::{both, close, log_leftover, tear_down};
pub(crate) use teardown::log_git;
