//! The control of a run from other processes of its user: a Unix socket in the state folder, one
//! line of JSON each way.
//!
//! Invariant: no task can reach it. The state folder is never mounted, and a client must be the
//! same user, or root.

mod activity;
mod client;
mod exec;
mod folder;
mod message;
mod server;

pub(crate) use activity::{Activity, ToolCall};
pub(crate) use client::{Connection, Runs, shield_of};
pub(crate) use message::{ExecTerminal, Question, Report, Request, ScreenReport};
pub(crate) use server::{ControlSocket, Controlled};
