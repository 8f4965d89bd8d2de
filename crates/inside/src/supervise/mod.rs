//! The first process of a container in which several commands run.
//!
//! Each command runs below a process of its own, a *subreaper*: every process that the command
//! starts stays below it, whatever session or group that process is in. When the command has ended,
//! or has to end, its subreaper is killed; what the command left is then reparented to PID 1, which
//! kills until nothing is left. So no process of a command outlives it, other commands are not
//! touched, and no process escapes by starting others in its place.
//!
//! A command may run as the same user as PID 1. It cannot kill PID 1, which the kernel protects
//! from the processes of its own container, nor read its memory or open its streams: the program is
//! not readable for others and not dumpable. It can kill its subreaper, and so itself.
//!
//! A command may have limits of its own. `usage` looks whether it keeps to them.
//!
//! The end of stdin ends PID 1, and with it every process of the container: when the sandbox dies,
//! so do its commands.

mod control;
mod file;
mod handover;
mod init;
mod processes;
mod running;
mod start;
mod subreaper;
mod usage;

pub(crate) use start::start;
