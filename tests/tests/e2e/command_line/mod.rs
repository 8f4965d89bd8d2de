//! The `sandbox` command, as people and scripts use it.

mod agent;
mod agent_typed;
mod asking;
mod auto;
mod build;
mod care;
mod control;
mod exec;
mod exec_in_run;
mod gate;
mod git;
mod image;
mod learn;
mod left_behind;
mod logs;
mod other_agents;
mod policy;
pub(crate) mod project;
mod run;
mod settings;
pub(crate) mod stand_in;
mod terminal;
mod two_runs;
mod verify;
mod watch;
mod workspace;
mod zero_config;
