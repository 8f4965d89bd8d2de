//! `--ask`: what waits for an answer of the operator's, and who gives it: the terminal of the run,
//! or another process over its control socket.
//!
//! Invariant: the task's words are shown sanitised, and nothing that the task writes reaches the
//! terminal while a question is on it.

mod board;
mod prompt;
mod text;

pub(crate) use board::Board;
pub(crate) use prompt::{Asking, has_terminal};
