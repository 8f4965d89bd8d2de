//! The supervisor as a file that the engine can mount.

use crate::config::SandboxConfig;
use crate::program::{StaticProgram, stage as stage_program};
use crate::spec::{Launch, Mount, Runtime};

use crate::error::ExecutorError;

const NAME: &str = "sandbox-supervisor";
/// Others may execute it and not read it: the kernel hides the memory and the streams of such a process from them.
const MODE: u32 = 0o511;
/// gVisor executes nothing that its user may not read, and hides no process from others of its user, readable or not.
const MODE_IN_GVISOR: u32 = 0o555;

/// Finds the program and puts a copy into the state directory, which the engine sees. Blocks.
pub(super) fn stage(config: &SandboxConfig, runtime: Option<Runtime>) -> Result<Mount, ExecutorError> {
    let (file, mode) = match runtime {
        Some(Runtime::Runsc) => ("sandbox-supervisor-gvisor", MODE_IN_GVISOR),
        _ => (NAME, MODE),
    };
    let program = StaticProgram::find(NAME, config.proxy_dir.as_deref(), &config.state_dir)
        .map_err(|problem| ExecutorError::Supervisor { problem })?;
    stage_program(&program, file, &config.state_dir, mode)
        .map(|path| Mount::read_only_at(path, Launch::SUPERVISOR))
        .map_err(|(path, source)| ExecutorError::Program { path, source })
}
