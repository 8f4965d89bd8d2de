//! Sandboxes without podman: replacements of the engine, and a scripted engine for tests of
//! programs that use this crate.
//!
#![doc = include_str!("guide.md")]

mod engine;
mod launch;
mod script;
mod supervisor;

pub use engine::{ScriptedEngine, ScriptedProgram};
pub use script::Script;

pub use crate::container::{
    Answer, ExecSpec, Exit, LaunchPlan, LaunchedProgram, Launcher, ProgramControl, ProgramLog,
};
pub use sandbox_podman::{Output, Stdin};
