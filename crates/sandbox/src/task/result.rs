//! Results of executions.

use std::time::Duration;

use claude_output::{ApiError, StreamEvent, Usage};
use serde::{Serialize, Serializer};

use sandbox_agents::Outcome;
use sandbox_proxy_protocol::Traffic;
use sandbox_session::MissingEvents;
use sandbox_workspace::{GitChanges, TamperedPath};

/// The result of an agent's execution. Always returned: only infrastructure failures are errors. It
/// serializes its output as text.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ExecutionResult {
    /// The outcome to match on.
    pub outcome: Outcome,
    /// The session to resume, if the agent reported one.
    pub session_id: Option<String>,
    /// The text of the reply; empty if there is none.
    pub response_text: String,
    /// Why it failed, in the agent's message or its stderr if available, else in the sandbox's
    /// words; `None` on success only.
    pub error_summary: Option<String>,
    /// The last API error that the agent reported, with any outcome: also one that a later attempt
    /// recovered from.
    pub last_api_error: Option<ApiError>,
    /// All events, in order, except for those that are [`missing`](Self::missing).
    pub events: Vec<StreamEvent>,
    /// Events that came after those before them reached 128 MiB. The caller of `execute` got them,
    /// but they are not in the session. Results and API errors are kept nevertheless, up to 16 MiB
    /// of them.
    pub missing: MissingEvents,
    /// The duration in milliseconds, as reported by the agent, else as measured.
    pub duration_ms: u64,
    /// The cost in US dollars, as reported by the agent; 0 if it reports none.
    pub total_cost_usd: f64,
    /// Turns of the conversation.
    pub num_turns: u64,
    /// Tokens.
    pub usage: Usage,
    /// The output on stdout, at most 16 MiB: both ends are kept, the gap is marked.
    #[serde(serialize_with = "text")]
    pub stdout: Vec<u8>,
    /// The output on stderr, in the same form.
    #[serde(serialize_with = "text")]
    pub stderr: Vec<u8>,
    /// Bytes of both outputs that were not kept.
    pub cut: u64,
    /// The exit code; 128 + signal when a signal ended it.
    pub exit_code: i64,
    /// Whether the time limit ended it. The outcome may state what it was waiting for.
    pub timed_out: bool,
    /// Whether the kernel killed one of its processes for lack of memory. Podman 4 on cgroup v1
    /// does not report it.
    pub oom_killed: bool,
    /// Files that it wrote where programs of the host would execute them: see
    /// [`Protection`](crate::workspace::Protection).
    pub tampered: Vec<TamperedPath>,
    /// The changes to repositories of [protected](crate::Mount::protected) mounts that were
    /// imported, and those that were not. For a copy, see
    /// [`WorkspaceCopy`](crate::workspace::WorkspaceCopy).
    pub git: GitChanges,
    /// The network traffic; `None` if there was no proxy, or it had ended.
    pub traffic: Option<Traffic>,
    /// The phases of the execution.
    pub timings: Timings,
}

/// The result of a command. It serializes its output as text.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CommandResult {
    /// The command's own exit code; 128 + signal when a signal ended it.
    pub exit_code: i64,
    /// The output on stdout, at most 16 MiB: both ends are kept, the gap is marked.
    #[serde(serialize_with = "text")]
    pub stdout: Vec<u8>,
    /// The output on stderr, in the same form.
    #[serde(serialize_with = "text")]
    pub stderr: Vec<u8>,
    /// Bytes of both outputs that were not kept.
    pub cut: u64,
    /// From the start of the process to its end.
    pub duration: Duration,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// Whether [`Command::stop`](crate::Command::stop) or a shutdown ended it.
    pub stopped: bool,
    /// Whether the kernel killed one of its processes for lack of memory. Podman 4 on cgroup v1
    /// does not report it.
    pub oom_killed: bool,
    /// Files that it wrote where programs of the host would execute them: see
    /// [`Protection`](crate::workspace::Protection).
    pub tampered: Vec<TamperedPath>,
    /// The changes to repositories of [protected](crate::Mount::protected) mounts that were
    /// imported, and those that were not. For a copy, see
    /// [`WorkspaceCopy`](crate::workspace::WorkspaceCopy).
    pub git: GitChanges,
    /// The network traffic; `None` if there was no proxy, or it had ended.
    pub traffic: Option<Traffic>,
    /// The phases of the execution.
    pub timings: Timings,
}

/// The ends of the phases of an execution, in milliseconds since its call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Timings {
    /// The task's network was ready and the creation of its proxy had begun.
    pub network_ready_ms: u64,
    /// The proxy was serving.
    pub proxy_ready_ms: u64,
    /// The task's container was ready, its process not yet started.
    pub container_ready_ms: u64,
    /// The process was started.
    pub started_ms: u64,
    /// Its exit code was known.
    pub exited_ms: u64,
}

/// Output as text; invalid UTF-8 is replaced.
pub(crate) fn text<S: Serializer>(output: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&String::from_utf8_lossy(output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_with_any_output_serializes_to_json() {
        let result = CommandResult {
            exit_code: 1,
            stdout: b"a\xffb".to_vec(),
            stderr: Vec::new(),
            cut: 0,
            duration: Duration::from_millis(1500),
            timed_out: false,
            stopped: false,
            oom_killed: false,
            tampered: vec![TamperedPath::unseen(not_text(), "no")],
            git: GitChanges::default(),
            traffic: None,
            timings: Timings::default(),
        };
        let json = serde_json::to_value(&result).unwrap();
        assert_eq!(json["stdout"], "a\u{fffd}b");
        assert_eq!(json["tampered"][0]["path"], "/\u{fffd}");
        assert_eq!(json["duration"]["secs"], 1);
    }

    fn not_text() -> std::path::PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        std::ffi::OsStr::from_bytes(b"/\xff").into()
    }
}
