//! The program that runs inside of containers, as a file that the engine can mount.

use crate::config::SandboxConfig;
use crate::spec::{Mount, Runtime};

use super::{ProgramError, StaticProgram, stage};

/// Its path in containers.
pub(crate) const INSIDE: &str = "/run/sandbox/inside";
/// The entry point of an executor's container.
pub(crate) const SUPERVISE: [&str; 2] = [INSIDE, "supervise"];
/// What starts a program on a terminal.
pub(crate) const START: [&str; 2] = [INSIDE, "start"];
/// Other users may execute it, but not read it: the kernel then hides memory and streams of its
/// process from them.
const EXECUTE_ONLY: u32 = 0o511;
const READABLE: u32 = 0o555;

/// The mount of a copy that no other process of the container can inspect. Blocks.
///
/// gVisor executes nothing that its user cannot read, and does not hide processes from others of
/// the same user, readable or not.
pub(crate) fn unreadable(config: &SandboxConfig, runtime: Option<Runtime>) -> Result<Mount, ProgramError> {
    match runtime {
        Some(Runtime::Runsc) => readable(config),
        _ => mount(config, "sandbox-inside", EXECUTE_ONLY),
    }
}

/// The mount of a copy that can copy itself, as some checks do. Blocks.
pub(crate) fn readable(config: &SandboxConfig) -> Result<Mount, ProgramError> {
    mount(config, "sandbox-inside-readable", READABLE)
}

fn mount(config: &SandboxConfig, file: &str, mode: u32) -> Result<Mount, ProgramError> {
    let program = StaticProgram::inside(config)?;
    let path = stage(&program, file, &config.state_dir, mode)?;
    Ok(Mount::read_only_at(path, INSIDE))
}
