//! Live state: the program of the running execution, and its proxy, which receives commands.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allowlist::{Allowlist, RuleChange};
use sandbox_credentials::SecretReplacements;
use sandbox_podman::TerminalSize;
use tokio::sync::watch;

use crate::container::{ExecSpec, LaunchedProgram, ProgramControl};
use crate::egress::{ProxyControl, ShieldState};
use crate::error::SandboxError;

/// The program of the running execution.
#[derive(Debug, Default)]
pub(super) struct LiveProgram(watch::Sender<Latest>);

#[derive(Debug, Default)]
struct Latest {
    running: Option<Arc<dyn ProgramControl>>,
    /// Whether there was any: a short one may have ended before anyone looks.
    started: bool,
}

impl LiveProgram {
    pub(super) fn replace(&self, program: Option<Arc<dyn ProgramControl>>) {
        self.0.send_modify(|latest| {
            latest.started |= program.is_some();
            latest.running = program;
        });
    }

    pub(super) async fn started(&self) {
        // The sender is a field of `self`: it cannot be gone.
        let _ = self.0.subscribe().wait_for(|latest| latest.started).await;
    }

    pub(super) async fn exec(&self, spec: &ExecSpec) -> Result<LaunchedProgram, SandboxError> {
        let program = self.0.borrow().running.clone();
        Ok(program.ok_or(SandboxError::NotRunning)?.exec(spec).await?)
    }

    pub(super) async fn resize(&self, size: TerminalSize) -> Result<(), SandboxError> {
        let program = self.0.borrow().running.clone();
        Ok(program.ok_or(SandboxError::NotRunning)?.resize(size).await?)
    }
}

/// The proxy of the running execution.
#[derive(Debug, Default)]
pub(super) struct LiveProxy {
    /// `None` while nothing runs. Locked for single operations only.
    control: Mutex<Option<ProxyControl>>,
}

impl LiveProxy {
    pub(super) fn replace(&self, control: Option<ProxyControl>) {
        *self.control.lock().unwrap_or_else(PoisonError::into_inner) = control;
    }

    pub(super) async fn change_rule(&self, change: &RuleChange) -> Result<(), SandboxError> {
        Ok(self.control()?.change_rule(change).await?)
    }

    pub(super) async fn set_policy(&self, policy: Allowlist) -> Result<(), SandboxError> {
        Ok(self.control()?.set_policy(policy).await?)
    }

    pub(super) fn policy(&self) -> Result<Allowlist, SandboxError> {
        Ok(self.control()?.policy())
    }

    pub(super) async fn set_replacements(
        &self,
        replacements: SecretReplacements,
    ) -> Result<(), SandboxError> {
        Ok(self.control()?.set_replacements(replacements).await?)
    }

    pub(super) async fn quarantine(&self) -> Result<(), SandboxError> {
        Ok(self.control()?.quarantine().await?)
    }

    pub(super) async fn shield_down(&self, time: Duration) -> Result<(), SandboxError> {
        Ok(self.control()?.shield_down(time).await?)
    }

    pub(super) async fn shield_up(&self) -> Result<(), SandboxError> {
        Ok(self.control()?.shield_up().await?)
    }

    pub(super) fn shield_state(&self) -> Result<ShieldState, SandboxError> {
        Ok(self.control()?.shield_state()?)
    }

    fn control(&self) -> Result<ProxyControl, SandboxError> {
        let control = self.control.lock().unwrap_or_else(PoisonError::into_inner).clone();
        control.ok_or(SandboxError::NotRunning)
    }
}
