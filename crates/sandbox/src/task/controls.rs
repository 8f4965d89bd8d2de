//! What can be done with a task and a command alike.

/// The methods of a [`Task`](super::Task) and a [`Command`](super::Command) that look at an
/// execution, or control the one that runs.
macro_rules! controls {
    ($name:ident) => {
        impl $name {
            /// The log of the network activity; `None` without a folder for it.
            #[must_use]
            pub fn network_log(&self) -> Option<sandbox_network_log::NetworkLog> {
                let dir = self.0.spec.launch.network_log_dir.as_deref();
                dir.map(sandbox_network_log::NetworkLog::new)
            }

            /// Puts `policy` in force for the running execution, from its next request on. While
            /// the shield is down, it counts once that is up again. Returns when it is in force and
            /// in the log.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running, it is quarantined, or its proxy does
            /// not confirm the change within 30 s.
            pub async fn set_policy(&self, policy: allowlist::Allowlist) -> Result<(), SandboxError> {
                self.0.runner.live.set_policy(policy).await
            }

            /// The same for the policy that is in force by then: without `removed` of its own
            /// rules, and with `added` beside them. No other change is lost.
            ///
            /// # Errors
            ///
            /// As [`Self::set_policy`].
            pub async fn change_rules(
                &self,
                added: &[allowlist::Rule],
                removed: &[allowlist::Rule],
            ) -> Result<(), SandboxError> {
                self.0.runner.live.change_rules(added, removed).await
            }

            /// The policy that was put in force last, with the rules that answers to questions
            /// added.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running.
            pub fn policy(&self) -> Result<allowlist::Allowlist, SandboxError> {
                self.0.runner.live.policy()
            }

            /// Puts other real values in the place of the surrogates that the running execution
            /// has, from its next request on: those of a
            /// [`PreparedSecrets`](crate::credentials::PreparedSecrets) that was
            /// [renewed](crate::credentials::PreparedSecrets::renew). Answers are still searched
            /// for the values of before. Returns when they are in force and in the log. Later
            /// executions begin with those of the specification again.
            ///
            /// # Errors
            ///
            /// As [`Self::set_policy`].
            pub async fn set_replacements(
                &self,
                replacements: crate::credentials::SecretReplacements,
            ) -> Result<(), SandboxError> {
                self.0.runner.live.set_replacements(replacements).await
            }

            /// Lowers the shield of the running execution for `time`: from its next request on, any
            /// public host may be asked, whatever the policy says. What the address guard refuses,
            /// masked credentials, limits and the log stay, and a request that no rule permits is
            /// marked in the log. The proxy ends that by itself; a new time takes the place of the
            /// last. Returns when it is in force and in the log.
            ///
            /// # Errors
            ///
            /// As [`Self::set_policy`], and when `time` is shorter than a millisecond or longer
            /// than 24 hours.
            pub async fn shield_down(&self, time: std::time::Duration) -> Result<(), SandboxError> {
                self.0.runner.live.shield_down(time).await
            }

            /// Raises the shield of the running execution again, before its time is over: from its
            /// next request on, the policy alone decides. Requests in progress may end. Returns
            /// when it is in force and in the log, also where it was up.
            ///
            /// # Errors
            ///
            /// As [`Self::set_policy`].
            pub async fn shield_up(&self) -> Result<(), SandboxError> {
                self.0.runner.live.shield_up().await
            }

            /// What decides about the requests of the running execution now.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running.
            pub fn shield_state(&self) -> Result<crate::network::ShieldState, SandboxError> {
                self.0.runner.live.shield_state()
            }

            /// Cuts the running execution off: its connections are closed, and every further
            /// request is refused. Nothing ends that.
            ///
            /// # Errors
            ///
            /// When nothing with a network sandbox is running, or its proxy does not confirm the
            /// change within 30 s.
            pub async fn quarantine(&self) -> Result<(), SandboxError> {
                self.0.runner.live.quarantine().await
            }

            /// Returns when the program of an execution has been started, at once where one has
            /// been before. An execution that ends without that is for the caller to see.
            pub async fn started(&self) {
                self.0.runner.program.started().await;
            }

            /// Gives the terminal of the running execution another size, in characters. Its program
            /// gets SIGWINCH.
            ///
            /// # Errors
            ///
            /// When nothing is running that was started, it has no terminal, or the engine refuses.
            pub async fn resize(&self, size: crate::TerminalSize) -> Result<(), SandboxError> {
                self.0.runner.program.resize(size).await
            }

            /// Starts a further program in the container of the running execution, with the same
            /// user, rights, working directory, variables and limits. It reaches what the policy in
            /// force permits, and ends with the execution at the latest. Its time limit is for the
            /// caller.
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
            /// When nothing is running that was started, the engine refuses, or, as far as it says
            /// so, the program is not in the image.
            pub async fn exec(
                &self,
                spec: &crate::launcher::ExecSpec,
            ) -> Result<crate::launcher::LaunchedProgram, SandboxError> {
                if spec.command.first().is_none_or(String::is_empty) {
                    return Err(crate::spec::InvalidSpec::new("command", "is empty").into());
                }
                self.0.runner.program.exec(spec).await
            }

            /// Stops a running execution: SIGTERM, and SIGKILL after 5 s. Reports whether there was
            /// one; returns when it has ended.
            pub async fn stop(&self) -> bool {
                self.0.runner.switch.stop().await
            }
        }
    };
}

pub(super) use controls;
