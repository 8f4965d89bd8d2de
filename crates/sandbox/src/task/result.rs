//! What an execution came to.

use std::time::Duration;

use claude_output::{ApiError, StreamEvent, Usage};
use serde::{Serialize, Serializer};

use sandbox_agents::Outcome;
use sandbox_proxy_protocol::Traffic;
use sandbox_session::MissingEvents;
use sandbox_workspace::{GitChanges, TamperedPath};

/// What an execution of an agent came to. Always returned: only infrastructure failures are errors.
/// It serializes its output as text.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ExecutionResult {
    /// What a caller matches on.
    pub outcome: Outcome,
    /// The session to resume, where the agent named one.
    pub session_id: Option<String>,
    /// The reply's text; empty where there is none.
    pub response_text: String,
    /// Why it failed, in the words of the agent or its stderr where there are any, else in ours;
    /// `None` on success only.
    pub error_summary: Option<String>,
    /// The last error of the API that the agent reported, whatever the outcome: also one that a
    /// later attempt made good.
    pub last_api_error: Option<ApiError>,
    /// All events, in order, but for those that are [`missing`](Self::missing).
    pub events: Vec<StreamEvent>,
    /// Events that came when those before them already weighed 128 MiB. The caller of `execute` got
    /// them, the session has them not. Results and API errors are kept all the same, up to 16 MiB
    /// of them.
    pub missing: MissingEvents,
    /// Milliseconds, as the agent reports them, else as measured.
    pub duration_ms: u64,
    /// Cost in US dollars, as the agent reports it; 0 where it does not.
    pub total_cost_usd: f64,
    /// Turns of the conversation.
    pub num_turns: u64,
    /// Tokens.
    pub usage: Usage,
    /// What was written on stdout, at most 16 MiB of it: both ends are kept, the gap is marked.
    #[serde(serialize_with = "text")]
    pub stdout: Vec<u8>,
    /// The same for stderr.
    #[serde(serialize_with = "text")]
    pub stderr: Vec<u8>,
    /// The exit code; 128 + signal when a signal ended it.
    pub exit_code: i64,
    /// Whether the time limit ended it. The outcome may say what it was waiting for.
    pub timed_out: bool,
    /// Whether the kernel killed a process of it for want of memory. Podman 4 on cgroup v1 does not
    /// report it.
    pub oom_killed: bool,
    /// What it wrote where programs of the host would run it: see
    /// [`Protection`](crate::workspace::Protection).
    #[serde(rename = "planted")]
    pub tampered: Vec<TamperedPath>,
    /// What came of what it did in repositories of [protected](crate::Mount::protected) mounts, and
    /// what did not. Of a copy, [`WorkspaceCopy`](crate::workspace::WorkspaceCopy) says that.
    pub git: GitChanges,
    /// What was used of the network; `None` where there was no proxy, or it had ended.
    pub traffic: Option<Traffic>,
    /// Where the time went.
    pub timings: Timings,
}

/// What a command came to. It serializes its output as text.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CommandResult {
    /// The command's own exit code; 128 + signal when a signal ended it.
    pub exit_code: i64,
    /// What was written on stdout, at most 16 MiB of it: both ends are kept, the gap is marked.
    #[serde(serialize_with = "text")]
    pub stdout: Vec<u8>,
    /// The same for stderr.
    #[serde(serialize_with = "text")]
    pub stderr: Vec<u8>,
    /// From the start of the process to its end.
    pub duration: Duration,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// Whether [`Command::stop`](crate::Command::stop) or a shutdown ended it.
    pub stopped: bool,
    /// Whether the kernel killed a process of it for want of memory. Podman 4 on cgroup v1 does not
    /// report it.
    pub oom_killed: bool,
    /// What it wrote where programs of the host would run it: see
    /// [`Protection`](crate::workspace::Protection).
    #[serde(rename = "planted")]
    pub tampered: Vec<TamperedPath>,
    /// What came of what it did in repositories of [protected](crate::Mount::protected) mounts, and
    /// what did not. Of a copy, [`WorkspaceCopy`](crate::workspace::WorkspaceCopy) says that.
    pub git: GitChanges,
    /// What was used of the network; `None` where there was no proxy, or it had ended.
    pub traffic: Option<Traffic>,
    /// Where the time went.
    pub timings: Timings,
}

/// Where the time of an execution went, in milliseconds since it was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Timings {
    /// The task's network stood and its proxy was being created.
    pub network_ready_ms: u64,
    /// The proxy served.
    pub proxy_ready_ms: u64,
    /// The task's container stood, its process not yet started.
    pub container_ready_ms: u64,
    /// The process was started.
    pub started_ms: u64,
    /// Its exit code was known.
    pub exited_ms: u64,
}

/// Output as text; bytes that are none are replaced.
pub(crate) fn text<S: Serializer>(output: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&String::from_utf8_lossy(output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_a_form_in_json_whatever_a_task_wrote() {
        let result = CommandResult {
            exit_code: 1,
            stdout: b"a\xffb".to_vec(),
            stderr: Vec::new(),
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
        assert_eq!(json["planted"][0]["path"], "/\u{fffd}");
        assert_eq!(json["duration"]["secs"], 1);
    }

    fn not_text() -> std::path::PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        std::ffi::OsStr::from_bytes(b"/\xff").into()
    }
}
