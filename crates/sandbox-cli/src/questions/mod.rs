//! `--ask`: questions to the operator, answered on the terminal of the run, by another process over
//! its control socket, or by the program of `ask` in `sandbox.yaml`.
//!
//! Invariant: text of the task is shown sanitised, and no output of the task reaches the terminal
//! while a question is on it.

mod board;
mod program;
mod prompt;
mod text;

pub(crate) use board::Board;
pub(crate) use program::AskProgram;
pub(crate) use prompt::{Asking, has_terminal};
