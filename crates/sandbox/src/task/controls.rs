//! What can be done with a task and a command alike.

/// The methods of a [`Task`](super::Task) and a [`Command`](super::Command) that look at an execution, or control the one that runs.
macro_rules! controls {
    ($name:ident) => {
        impl $name {
            /// The log of the network activity; `None` without a folder for it.
            #[must_use]
            pub fn network_log(&self) -> Option<crate::network_log::NetworkLog> {
                let dir = self.0.spec.launch.network_log_dir.as_deref();
                dir.map(crate::network_log::NetworkLog::new)
            }

            /// Puts `policy` in force for the running execution, from its next request on.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running, or it is quarantined.
            pub async fn set_policy(&self, policy: allowlist::Allowlist) -> Result<(), SandboxError> {
                self.0.runner.live.set_policy(policy).await
            }

            /// Cuts the running execution off: its connections are closed, and every further request is refused. No policy ends that.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running.
            pub async fn quarantine(&self) -> Result<(), SandboxError> {
                self.0.runner.live.quarantine().await
            }

            /// Stops a running execution: SIGTERM, and SIGKILL after 5 s. Reports whether there was one; returns when it has ended.
            pub async fn stop(&self) -> bool {
                self.0.runner.switch.stop().await
            }
        }
    };
}

pub(super) use controls;
