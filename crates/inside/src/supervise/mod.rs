//! The first process of a container that runs several commands.
//!
//! Each command runs below its own *subreaper* process: every process that the command starts stays
//! below it, in any session or group. When the command has ended, or must end, its subreaper is
//! killed; its remaining processes are then reparented to PID 1, which kills them until none is
//! left. So no process of a command outlives it, other commands are not affected, and no process
//! escapes by forking.
//!
//! A command may run as the same user as PID 1. It cannot kill PID 1, which the kernel protects
//! from the processes of its own container, nor read its memory or open its streams: the program is
//! not readable by others and not dumpable. It can kill its subreaper, and so itself.
//!
//! A command may have limits of its own, which `usage` checks.
//!
//! PID 1 exits at the end of its stdin, and with it every process of the container: when the
//! sandbox dies, so do its commands.

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
