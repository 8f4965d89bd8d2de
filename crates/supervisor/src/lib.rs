//! The first process of a container in which several commands run, and what it and the sandbox say to each other.
//!
//! The sandbox mounts the program `sandbox-supervisor` of this package into the container and makes it PID 1. Its stdin and stdout carry
//! [frames](Frame): the sandbox asks it to start commands, feeds them and ends them; it passes on what they write and how they end. It
//! needs nothing of the image, not even a shell.
//!
//! Each command runs below a process of its own, a *keeper*, which is the reaper of everything that the command starts, whatever session or
//! group that puts itself into. When the command has ended, or is to be ended, its keeper goes: what the command left then falls to
//! PID 1, which kills what falls to it until nothing is left. So nothing of a command outlives it, other commands are not touched, and no
//! process can get away by starting others in its place.
//!
//! A command may run as the same user as PID 1 does. It cannot signal PID 1 to death, which the kernel protects from the processes of
//! its own container, nor look into it or open its streams: the program is not readable for others and not dumpable. It can kill its
//! keeper, and so itself.
//!
//! The end of stdin ends PID 1, and with it every process of the container: a sandbox that dies takes its commands along.
//!
//! ```
//! use sandbox_supervisor::{Decoder, Frame};
//!
//! let frame = Frame::Input { command: 7, bytes: b"hello".to_vec() };
//! let mut decoder = Decoder::default();
//! decoder.push(&frame.encode());
//! assert_eq!(decoder.next_frame()?, Some(frame));
//! # Ok::<(), sandbox_supervisor::ProtocolError>(())
//! ```

mod decoder;
mod end;
mod frame;
mod request;

pub use decoder::{Decoder, ProtocolError};
pub use end::End;
pub use frame::{Frame, LARGEST_CHUNK};
pub use request::{CommandLine, Request};
