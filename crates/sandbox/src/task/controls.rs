//! Methods that tasks and commands share.

/// The methods of a [`Task`](super::Task) and a [`Command`](super::Command) that inspect an
/// execution, or control the running one.
macro_rules! controls {
    ($name:ident) => {
        impl $name {
            /// The log of the network activity; `None` without a log folder.
            #[must_use]
            pub fn network_log(&self) -> Option<sandbox_network_log::NetworkLog> {
                let dir = self.0.spec.launch.network_log_dir.as_deref();
                dir.map(sandbox_network_log::NetworkLog::new)
            }

            /// Puts `policy` in force for the running execution, from its next request on. While
            /// the shield is down, it takes effect when the shield is raised. Returns when the
            /// policy is in force and logged.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running, when the execution is quarantined,
            /// or when its proxy does not confirm the change within 30 s.
            pub async fn set_policy(&self, policy: allowlist::Allowlist) -> Result<(), SandboxError> {
                self.0.runner.live.set_policy(policy).await
            }

            /// Allows or denies what a rule covers, in the policy that is in force. Concurrent
            /// changes are kept.
            ///
            /// # Errors
            ///
            /// As for [`Self::set_policy`].
            pub async fn change_rule(&self, change: &allowlist::RuleChange) -> Result<(), SandboxError> {
                self.0.runner.live.change_rule(change).await
            }

            /// The policy that was put in force last, including rules that answers to questions
            /// added.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running.
            pub fn policy(&self) -> Result<allowlist::Allowlist, SandboxError> {
                self.0.runner.live.policy()
            }

            /// Replaces the real values behind the surrogates of the running execution, from its
            /// next request on, by those of a
            /// [`PreparedSecrets`](crate::credentials::PreparedSecrets) that was
            /// [renewed](crate::credentials::PreparedSecrets::renew). Responses are still searched
            /// for the earlier values. Returns when the values are in force and the change is
            /// logged. Later executions start with those of the specification again.
            ///
            /// # Errors
            ///
            /// As for [`Self::set_policy`].
            pub async fn set_replacements(
                &self,
                replacements: crate::credentials::SecretReplacements,
            ) -> Result<(), SandboxError> {
                self.0.runner.live.set_replacements(replacements).await
            }

            /// Lowers the shield of the running execution for `time`: from its next request on, any
            /// public host can be reached, regardless of the policy. The address guard, masked
            /// credentials, limits and the log stay in force, and requests that no rule permits are
            /// marked in the log. The proxy raises the shield by itself; a new time replaces the
            /// last one. Returns when it is in force and logged.
            ///
            /// # Errors
            ///
            /// As for [`Self::set_policy`], and when `time` is shorter than a millisecond or longer
            /// than 24 hours.
            pub async fn shield_down(&self, time: std::time::Duration) -> Result<(), SandboxError> {
                self.0.runner.live.shield_down(time).await
            }

            /// Raises the shield of the running execution before its time is over: from its next
            /// request on, the policy alone decides. Requests in progress may complete. Returns
            /// when it is in force and logged, even if the shield was up.
            ///
            /// # Errors
            ///
            /// As for [`Self::set_policy`].
            pub async fn shield_up(&self) -> Result<(), SandboxError> {
                self.0.runner.live.shield_up().await
            }

            /// The current state of the running execution's shield.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running.
            pub fn shield_state(&self) -> Result<crate::network::ShieldState, SandboxError> {
                self.0.runner.live.shield_state()
            }

            /// Cuts the running execution off: its connections are closed, and every further
            /// request is refused. This is irreversible.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running, or its proxy does not confirm the
            /// change within 30 s.
            pub async fn quarantine(&self) -> Result<(), SandboxError> {
                self.0.runner.live.quarantine().await
            }

            /// Returns when the program of an execution has been started, immediately if one has
            /// been started before. It does not return for an execution that ends before its start.
            pub async fn started(&self) {
                self.0.runner.program.started().await;
            }

            /// Resizes the terminal of the running execution, in characters. Its program gets
            /// SIGWINCH.
            ///
            /// # Errors
            ///
            /// When no started program is running, when it has no terminal, or when the engine
            /// refuses.
            pub async fn resize(&self, size: crate::TerminalSize) -> Result<(), SandboxError> {
                self.0.runner.program.resize(size).await
            }

            /// Starts a further program in the container of the running execution, with the same
            /// user, privileges, working directory, variables and limits. It reaches what the
            /// policy in force permits, and ends with the execution at the latest. The caller
            /// enforces its time limit.
            ///
            /// ```no_run
            /// # async fn example(command: sandbox::Command) -> Result<(), sandbox::SandboxError> {
            /// use sandbox::launcher::ExecSpec;
            ///
            /// let program = command.exec(&ExecSpec::new(["ps", "-ef"])).await?;
            /// let exit = program.control.wait().await?;
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            ///
            /// When no started program is running, when the engine refuses, or, if the engine
            /// reports it, when the program is not in the image.
            pub async fn exec(
                &self,
                spec: &crate::launcher::ExecSpec,
            ) -> Result<crate::launcher::LaunchedProgram, SandboxError> {
                if spec.command.first().is_none_or(String::is_empty) {
                    return Err(crate::spec::InvalidSpec::new("command", "is empty").into());
                }
                self.0.runner.program.exec(spec).await
            }

            /// Stops a running execution: SIGTERM, and SIGKILL after 5 s. Returns when it has
            /// ended, with `false` if there was none.
            pub async fn stop(&self) -> bool {
                self.0.runner.switch.stop().await
            }
        }
    };
}

pub(super) use controls;
