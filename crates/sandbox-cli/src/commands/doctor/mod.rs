//! `doctor`: what the sandbox needs, checked one by one, each fault with its fix.
//!
//! `engine` looks at the engine, `vulnerabilities` at its version, `host` at this machine and
//! `parts` at our own programs, `project` at the current folder, `trial` runs a container, and
//! `checks` has their order; `report` is what they find and how it is printed.

mod checks;
mod engine;
mod host;
mod parts;
mod project;
mod report;
mod trial;
mod vulnerabilities;

pub(crate) use checks::doctor;
