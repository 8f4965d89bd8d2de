//! The `sandbox` command; its program only calls [`main`].
//!
//! `args` is the command line, `config` the environment and `sandbox.yaml`, `settings` combines
//! both; each module of `commands` implements one command with its settings and a printer, and
//! returns the exit status (`exit_status`). stdout is data, stderr everything else.

mod args;
mod bundle_result;
mod change_report;
mod commands;
mod config;
mod control;
mod credentials;
mod exit_status;
mod failure;
#[cfg(feature = "forced-panic")]
mod forced_panic;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod git_report;
mod image_context;
mod interrupt;
mod kubernetes;
mod network_log;
mod owner;
mod printer;
mod program;
mod questions;
mod receipt_key;
mod removal;
mod run_context;
mod run_folder;
mod run_record;
mod session_folder;
mod settings;
mod slurm;
mod table;
mod tamper_report;
mod telemetry;
mod terminal;
mod trace;
mod trust;
mod work_tree;
mod workspace_copy;

pub use program::main;
