//! `doctor`: checks the sandbox's prerequisites one by one, and names the fix of each problem.
//!
//! `engine` checks the engine, `vulnerabilities` its version, `host` the host, `parts` our own
//! programs and `project` the current folder; `trial` runs a container. `checks` has their order;
//! `report` holds and prints their results.

mod checks;
mod engine;
mod host;
mod parts;
mod project;
mod report;
mod trial;
mod vulnerabilities;

pub(crate) use checks::doctor;
