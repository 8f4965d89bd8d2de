//! One module per command: it gets its settings and a printer, and returns the exit status.

mod agent;
mod allowlist;
mod apply;
mod attach;
mod build;
mod bundle;
mod clean;
mod config;
mod diff;
mod discard;
mod dispatch;
mod doctor;
mod each;
mod exec;
mod gate;
mod generate;
mod image;
mod init;
mod job;
mod jobs;
mod logs;
mod policy;
mod receipt;
mod report;
mod result_copy;
mod run;
mod run_bundle;
mod runs;
mod ssh;
mod status;
mod submit;
mod transcript;
mod trust;
mod verify;
mod watch;

pub(crate) use dispatch::dispatch;
