//! Programs of ours that containers run: where they are, whether they run in an image that holds nothing else, and a copy that the engine
//! can mount.

mod elf;
mod staged;
mod static_program;

pub(crate) use staged::stage;
pub(crate) use static_program::StaticProgram;
