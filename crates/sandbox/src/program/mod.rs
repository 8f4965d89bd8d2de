//! Programs of ours that containers run: where they are, whether they run in an image that holds
//! nothing else, and a copy that the engine can mount.

mod elf;
mod error;
mod inside;
mod staged;
mod static_program;

pub use error::ProgramError;
pub(crate) use inside::{INSIDE, SUPERVISE, readable, unreadable};
use staged::stage;
pub(crate) use static_program::StaticProgram;
