//! Commands to the proxy of a running execution.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use allowlist::Allowlist;
use sandbox_credentials::SecretReplacements;

use crate::egress::{ProxyControl, ShieldState};
use crate::error::SandboxError;

/// The proxy of the execution that runs now.
#[derive(Debug, Default)]
pub(super) struct LiveProxy {
    /// `None` while nothing runs. Locked for single operations only.
    control: Mutex<Option<ProxyControl>>,
}

impl LiveProxy {
    pub(super) fn replace(&self, control: Option<ProxyControl>) {
        *self.control.lock().unwrap_or_else(PoisonError::into_inner) = control;
    }

    pub(super) async fn set_policy(&self, policy: Allowlist) -> Result<(), SandboxError> {
        Ok(self.control()?.set_policy(policy).await?)
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
