//! Static programs for containers: their location, a check that they run in an empty image, and a
//! copy that the engine can mount.

mod elf;
mod error;
mod inside;
mod staged;
mod static_program;

pub use error::ProgramError;
pub(crate) use inside::{INSIDE, START, SUPERVISE, readable, unreadable};
use staged::stage;
pub(crate) use static_program::StaticProgram;
