//! The supervisor as a file that the engine can mount.

use crate::config::SandboxConfig;
use crate::program::{StaticProgram, stage as stage_program};
use crate::spec::Mount;

use super::ExecutorError;

const NAME: &str = "sandbox-supervisor";
/// Where containers see it.
pub(super) const PROGRAM: &str = "/run/sandbox/supervisor";
/// Others may execute it and not read it: the kernel hides the memory and the streams of such a process from them.
const MODE: u32 = 0o511;

/// Finds the program and puts a copy into the state directory, which the engine sees. Blocks.
pub(super) fn stage(config: &SandboxConfig) -> Result<Mount, ExecutorError> {
    let program = StaticProgram::find(NAME, config.proxy_dir.as_deref())
        .map_err(|problem| ExecutorError::Supervisor { problem })?;
    stage_program(&program, NAME, &config.state_dir, MODE)
        .map(|path| Mount::read_only_at(path, PROGRAM))
        .map_err(|(path, source)| ExecutorError::Program { path, source })
}
