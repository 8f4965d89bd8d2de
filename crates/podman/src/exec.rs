//! Additional processes in a running container.

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

/// The engine's state of such a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExecState {
    /// Whether it runs.
    pub running: bool,
    /// The exit code, once it has ended.
    pub exit_code: i64,
    /// Its pid in the engine's namespace; 0 before it runs.
    pub pid: u32,
}

impl Engine {
    /// Prepares `command` in a running container, and returns its id. It gets the container's own
    /// user, rights, working directory and variables, plus `variables` (`NAME=value`).
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
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
            // No detach keys, which a program could need itself.
            "DetachKeys": "",
        }));
        let created: Created = self.libpod().json(call).await?;
        Ok(created.id)
    }

    /// Starts the prepared `exec`, with a terminal of this size or, if prepared so, without one.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; the message includes the runtime's error about the
    /// executable.
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

    /// The engine's state of a command in a container; not found once its container is removed.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn inspect_exec(&self, exec: &str) -> Result<ExecState, EngineError> {
        let path = format!("/exec/{}/json", escape(exec));
        self.libpod().json(container_call("inspect command", exec, Method::GET, path)).await
    }

    /// Resizes the terminal of a command in a container.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn resize_exec(&self, exec: &str, size: TerminalSize) -> Result<(), EngineError> {
        let TerminalSize { columns, rows } = size;
        let path = format!("/exec/{}/resize?h={rows}&w={columns}", escape(exec));
        let call = container_call("resize the terminal of command", exec, Method::POST, path);
        self.libpod().call(call).await.map(drop)
    }
}
