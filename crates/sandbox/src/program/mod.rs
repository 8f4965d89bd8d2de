//! Programs of ours that containers run: where they are, and whether they run in an image that holds nothing else.

mod elf;
mod static_program;

pub(crate) use static_program::StaticProgram;
