//! Further processes in a container that runs.

use bollard::exec::{StartExecOptions, StartExecResults};
use http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::attach::{Output, Stdin};
use crate::connection::{CALL_DEADLINE, Engine, within};
use crate::container::container_call;
use crate::error::{Cause, EngineError};
use crate::libpod::escape;
use crate::terminal::{TerminalSize, raw};

/// What the engine knows of such a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExecState {
    /// Whether it runs.
    pub running: bool,
    /// The exit code of one that has ended.
    pub exit_code: i64,
    /// As the engine numbers it; 0 before it runs.
    pub pid: u32,
}

impl Engine {
    /// Prepares `command` in a container that runs, and returns its id. It gets the container's own
    /// user, rights, working directory and variables; `variables` (`NAME=value`) come on top.
    ///
    /// # Errors
    ///
    /// As of every call: see [`EngineError`].
    pub async fn create_exec(
        &self,
        container: &str,
        command: &[String],
        variables: &[String],
        terminal: bool,
    ) -> Result<String, EngineError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Created {
            id: String,
        }
        let path = format!("/containers/{}/exec", escape(container));
        let mut call = container_call("prepare a command in container", container, Method::POST, path);
        call.body = Some(json!({
            "AttachStdin": true, "AttachStdout": true, "AttachStderr": true, "Tty": terminal, "Cmd": command, "Env": variables,
            // None that a program could mean.
            "DetachKeys": "",
        }));
        let created: Created = self.libpod().json(call).await?;
        Ok(created.id)
    }

    /// Starts what was prepared as `exec`, with a terminal of this size or, as it was prepared,
    /// none.
    ///
    /// # Errors
    ///
    /// As of every call: see [`EngineError`]; what the runtime says about the executable is in the
    /// message.
    pub async fn start_exec(
        &self,
        exec: &str,
        terminal: Option<TerminalSize>,
    ) -> Result<(Stdin, Output), EngineError> {
        const OPERATION: &str = "start command";
        if let Some(TerminalSize { columns, rows }) = terminal {
            let path = format!("/exec/{}/start", escape(exec));
            let mut call = container_call(OPERATION, exec, Method::POST, path);
            call.body = Some(json!({ "Detach": false, "Tty": true, "h": rows, "w": columns }));
            let (read, write) = tokio::io::split(self.libpod().upgrade(call).await?);
            return Ok((Stdin::new(write), raw(exec, read)));
        }
        let options = StartExecOptions { detach: false, tty: false, output_capacity: None };
        let call = self.docker().start_exec(exec, Some(options));
        match within(CALL_DEADLINE, OPERATION, exec, call).await? {
            StartExecResults::Attached { output, input } => {
                Ok((Stdin::new(input), Output::of_frames(exec, output)))
            }
            StartExecResults::Detached => {
                Err(EngineError::new(OPERATION, exec, Cause::Answer("it is not attached".to_owned())))
            }
        }
    }

    /// What the engine knows of a command in a container; not found once its container is gone.
    ///
    /// # Errors
    ///
    /// As of every call: see [`EngineError`].
    pub async fn inspect_exec(&self, exec: &str) -> Result<ExecState, EngineError> {
        let path = format!("/exec/{}/json", escape(exec));
        self.libpod().json(container_call("inspect command", exec, Method::GET, path)).await
    }

    /// Gives the terminal of a command in a container another size.
    ///
    /// # Errors
    ///
    /// As of every call: see [`EngineError`].
    pub async fn resize_exec(&self, exec: &str, size: TerminalSize) -> Result<(), EngineError> {
        let TerminalSize { columns, rows } = size;
        let path = format!("/exec/{}/resize?h={rows}&w={columns}", escape(exec));
        let call = container_call("resize the terminal of command", exec, Method::POST, path);
        self.libpod().call(call).await.map(drop)
    }
}
