//! The probe, where the engine sees it.

use std::path::PathBuf;

use crate::config::SandboxConfig;
use crate::program::{StaticProgram, stage};

use crate::error::VerifyError;

const NAME: &str = "sandbox-verify-probe";
/// Every user of a container executes it.
const MODE: u32 = 0o555;

/// A copy of the probe in the state directory, named after its content: the engine mounts files from there. Blocks.
pub(super) fn place(config: &SandboxConfig) -> Result<PathBuf, VerifyError> {
    let program = StaticProgram::find(NAME, config.proxy_dir.as_deref(), &config.state_dir)
        .map_err(|problem| VerifyError::Program { problem })?;
    stage(&program, NAME, &config.state_dir, MODE)
        .map_err(|(path, source)| VerifyError::Probe { path, source })
}
