//! Reads an agent's output: events for the session and for the caller, and the evidence for its
//! outcome.

use std::ops::ControlFlow;
use std::time::Duration;

use claude_output::{EventKind, EventParser, ParsedLine, StreamEvent};
use sandbox_agents::{Ended, Evidence, Outcome, Translator};
use sandbox_session::{ReplyEnd, ReplyWriter};
use sandbox_workspace::GitChanges;
use tokio::time::Instant;

use crate::container::Chunk;
use crate::error::SandboxError;

use super::capture::Capture;
use super::drive::{End, Sink};
use super::execution::Events;
use super::result::{ExecutionResult, Timings};
use super::watchdog::{Alarm, Watchdog};

/// The size of stdout in MiB at which the task is stopped. The kept part has bounds of its own;
/// this bounds a runaway agent.
const OUTPUT_LIMIT_MIB: u64 = 512;
const OUTPUT_LIMIT: u64 = OUTPUT_LIMIT_MIB * 1024 * 1024;

/// The longest line that may be an event: 32 MiB. The API accepts no larger request, so no part of
/// a conversation is longer.
const LINE_LIMIT: usize = 32 * 1024 * 1024;

/// The output of an execution that has been read so far.
pub(super) struct Reading {
    events: Events<StreamEvent>,
    parser: EventParser,
    /// For an agent other than Claude Code.
    translator: Option<Translator>,
    reply: ReplyWriter,
    watchdog: Watchdog,
    /// Whether it resumes a session.
    resumes: bool,
    /// Whether pieces of text are sent to the caller only: the session has the whole text.
    pub(super) skips_partial: bool,
    text_lines: Vec<String>,
    stdout: Capture,
    stderr: Capture,
    bytes: u64,
    failure: Option<SandboxError>,
}

impl Reading {
    /// Lines of stdout that are not JSON: enough to see the output of an old or broken program.
    const TEXT_LINES: usize = 200;
    /// The kept beginning of such a line, in bytes.
    const TEXT_LINE: usize = 4096;

    pub(super) fn new(
        reply: ReplyWriter,
        events: Events<StreamEvent>,
        watchdog: Watchdog,
        resumes: bool,
        translator: Option<Translator>,
    ) -> Self {
        Self {
            events,
            watchdog,
            resumes,
            skips_partial: false,
            parser: EventParser::with_line_limit(LINE_LIMIT),
            translator,
            reply,
            text_lines: Vec::new(),
            stdout: Capture::new(Capture::DEFAULT_LIMIT),
            stderr: Capture::new(Capture::DEFAULT_LIMIT),
            bytes: 0,
            failure: None,
        }
    }

    /// Keeps lines; returns the events among them if the caller reads events.
    fn keep(&mut self, lines: Vec<ParsedLine>) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        for line in lines {
            match line {
                ParsedLine::Event(event) => {
                    self.watchdog.on_output(Instant::now());
                    match &mut self.translator {
                        Some(translator) => events.extend(translator.translate(event)),
                        None => events.push(event),
                    }
                }
                ParsedLine::Text(text) if self.text_lines.len() < Self::TEXT_LINES => {
                    let end = text.floor_char_boundary(Self::TEXT_LINE);
                    self.text_lines.push(text.get(..end).unwrap_or_default().to_owned());
                }
                ParsedLine::Text(_) => {}
            }
        }
        self.keep_events(events)
    }

    /// Keeps events; returns them if the caller reads events.
    fn keep_events(&mut self, events: Vec<StreamEvent>) -> Vec<StreamEvent> {
        let wanted = self.events.has_reader();
        let mut given = Vec::new();
        for event in events {
            self.watchdog.on_event(&event, Instant::now());
            if self.skips_partial && matches!(event.kind(), EventKind::Partial(_)) {
                given.extend(Some(event).filter(|_| wanted));
                continue;
            }
            if wanted {
                given.push(event.clone());
            }
            if let Err(error) = self.reply.add(event) {
                self.failure.get_or_insert(error.into());
            }
        }
        given
    }

    /// Sends events to the caller. While they wait there, Claude Code may wait too.
    async fn deliver(&mut self, events: Vec<StreamEvent>) {
        if !events.is_empty() {
            let began = Instant::now();
            self.events.send(events).await;
            self.watchdog.waited(began, Instant::now());
        }
    }

    fn verdict(&self) -> ControlFlow<Ended> {
        if self.failure.is_some() {
            ControlFlow::Break(Ended::Itself)
        } else if self.bytes > OUTPUT_LIMIT {
            ControlFlow::Break(Ended::OutputLimit)
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Classifies the output and closes the session's reply.
    pub(super) async fn finish(
        mut self,
        end: &End,
        timings: Timings,
    ) -> Result<ExecutionResult, SandboxError> {
        let last = self.parser.finish().into_iter().collect();
        let mut last = self.keep(last);
        let rest = self.translator.as_mut().map(Translator::finish).unwrap_or_default();
        last.extend(self.keep_events(rest));
        self.events.send(last).await;
        let too_much = self.bytes > OUTPUT_LIMIT;
        let cut = self.stdout.cut().saturating_add(self.stderr.cut());
        let stderr = self.stderr.into_bytes();
        let stderr_text = String::from_utf8_lossy(&stderr);
        let events = self.reply.events();
        let evidence = Evidence {
            ended: if too_much { Ended::OutputLimit } else { end.ended },
            exit_code: end.exit.code,
            oom_killed: end.exit.oom_killed,
            resumes: self.resumes,
            events,
            text_lines: &self.text_lines,
            stderr: &stderr_text,
        };
        let outcome = evidence.outcome();
        let failed = outcome != Outcome::Success;
        let error_summary = if failed && too_much {
            Some(format!("stopped because its output reached {OUTPUT_LIMIT_MIB} MiB"))
        } else {
            evidence.error_summary(outcome)
        };
        let last_api_error = claude_output::extract_api_error(events);
        let session_id = claude_output::extract_session_id(events).map(str::to_owned);
        let measured = Duration::from_millis(timings.exited_ms.saturating_sub(timings.started_ms));
        let reply = self.reply.finish(ReplyEnd { is_error: failed, measured })?;
        match self.failure {
            Some(error) => Err(error),
            None => Ok(ExecutionResult {
                outcome,
                session_id,
                response_text: reply.response_text,
                error_summary,
                last_api_error,
                events: reply.events,
                missing: reply.missing,
                duration_ms: reply.duration_ms,
                total_cost_usd: reply.total_cost_usd,
                num_turns: reply.num_turns,
                usage: reply.usage,
                stdout: self.stdout.into_bytes(),
                stderr,
                cut,
                exit_code: end.exit.code,
                timed_out: end.ended == Ended::Timeout,
                oom_killed: end.exit.oom_killed,
                tampered: Vec::new(),
                git: GitChanges::default(),
                traffic: None,
                timings,
            }),
        }
    }
}

impl Sink for Reading {
    async fn take(&mut self, chunk: Chunk) -> ControlFlow<Ended> {
        match chunk {
            Chunk::Stdout(bytes) => {
                self.stdout.push(&bytes);
                self.bytes += bytes.len() as u64;
                let lines = self.parser.push(&bytes);
                let events = self.keep(lines);
                self.deliver(events).await;
            }
            Chunk::Stderr(bytes) => {
                self.stderr.push(&bytes);
                self.bytes += bytes.len() as u64;
            }
        }
        self.verdict()
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.watchdog.deadline(Instant::now())
    }

    async fn wake(&mut self) -> ControlFlow<Ended> {
        let Alarm { silent, then } = self.watchdog.wake(Instant::now());
        if let Some(silent) = silent {
            tracing::info!(?silent, "the agent reports nothing");
            let event = StreamEvent::stalled(silent);
            if let Err(error) = self.reply.add(event.clone()) {
                self.failure.get_or_insert(error.into());
            }
            self.deliver(vec![event]).await;
        }
        match then {
            ControlFlow::Break(ended) => ControlFlow::Break(ended),
            ControlFlow::Continue(()) => self.verdict(),
        }
    }

    fn at_end(&self) -> impl FnOnce() + Send + use<> {
        self.events.at_end()
    }
}
