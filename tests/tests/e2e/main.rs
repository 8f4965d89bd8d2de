//! The end-to-end tests; `cargo xtask e2e` runs them. One module per subject.
#![expect(clippy::disallowed_methods, reason = "tests start the programs that they test")]

mod agent;
mod agent_ends;
mod asking;
mod bundles;
mod clients;
mod command_line;
mod credentials;
mod disclosed;
mod examples;
mod executor;
mod gate;
mod gateway;
mod git_rules;
mod hardening;
mod identity;
mod image_builds;
mod images;
mod isolation;
mod lifecycle;
mod mcp;
mod protocols;
mod reliability;
mod requests;
mod resources;
mod rootless;
mod runs;
mod services;
mod shield;
mod slurm;
mod ssh;
mod taken_over;
mod telemetry;
mod vendor_tools;
mod verify;
mod workspace;
