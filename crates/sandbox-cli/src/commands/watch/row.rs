//! An entry of a network log as a line of the screen. It contains no unescaped text of the task.

use allowlist::Asked;
use sandbox::network::{LogEntry, Tokens};
use sandbox::network_event::{
    BlockReason, Event, PolicyState, PortProtocol, RequestOutcome, RequestRecord, Scheme, StreamRecord,
};

use super::inert::{from_network, name};
use super::text::time_of_day;
use crate::control::ToolCall;

/// The number of characters kept of a URL, and of any other text.
const URL: usize = 1000;
const WORD: usize = 60;
/// The longest URL, in bytes, whose request is kept to derive a rule from it.
const ASKED: usize = 4096;

/// The kind of an event, shown as the mark of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Allowed,
    /// It passed because the shield was down.
    ShieldDown,
    Blocked,
    Failed,
    Open,
    Note,
}

/// A line of the list of requests.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Counts up in a run.
    pub(super) number: u64,
    /// Time of day, UTC.
    pub(super) time: String,
    pub(super) mark: Mark,
    /// The method, or the kind of the event.
    pub(super) what: String,
    /// The URL, or another place.
    pub(super) place: String,
    /// The status, or why it is missing.
    pub(super) answer: String,
    /// The rule that permitted it, or details of the error.
    pub(super) more: String,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
    pub(super) duration_ms: Option<u64>,
    pub(super) tokens: Option<Tokens>,
    /// The number of events that it represents.
    pub(super) times: u64,
    /// The request as it was sent, if rules decide it.
    pub(super) asked: Option<Asked>,
}

impl Row {
    /// The line of `entry`; `None` for entries that are not shown as lines.
    pub(super) fn of(entry: &LogEntry) -> Option<Self> {
        let mut row = match &entry.event {
            Event::Request(request) => of_request(request),
            Event::RequestOpen(open) => {
                let place = url(open.scheme, &open.host, &open.target);
                Self::new(Mark::Open, &open.method, place, "in progress")
            }
            Event::Tunnel(tunnel) => Self {
                bytes_up: tunnel.bytes_up,
                bytes_down: tunnel.bytes_down,
                duration_ms: Some(tunnel.duration_ms),
                ..Self::new(
                    Mark::Allowed,
                    "TUNNEL",
                    url(tunnel.scheme, &tunnel.host, &tunnel.target),
                    "closed",
                )
            },
            Event::Stream(stream) => of_stream(stream),
            Event::StreamOpen(open) => {
                Self::new(Mark::Open, "STREAM", service(&open.service, open.port), "in progress")
            }
            Event::TlsRefused { server_name, alert, reason } => {
                let place = from_network(server_name.as_deref().unwrap_or("-"), URL);
                let answer = reason.map_or_else(|| from_network(alert, WORD), |reason| reason.to_string());
                Self { more: from_network(alert, WORD), ..Self::new(Mark::Blocked, "TLS", place, &answer) }
            }
            Event::PortRefused { protocol, port } => {
                let protocol = match protocol {
                    PortProtocol::Tcp => "tcp",
                    PortProtocol::Udp => "udp",
                };
                Self::new(Mark::Blocked, "PORT", format!("{port}/{protocol}"), "refused")
            }
            Event::Limit { limit, count } => {
                let place = from_network(limit, WORD);
                Self { times: *count, ..Self::new(Mark::Note, "LIMIT", place, "reached") }
            }
            Event::Policy { state, .. } => {
                let state = match state {
                    PolicyState::Up => "the policy decides",
                    PolicyState::Down => "the shield is down",
                    PolicyState::Quarantine => "quarantine",
                };
                Self::new(Mark::Note, "POLICY", state.to_owned(), "")
            }
            Event::Warning { text } => Self::new(Mark::Note, "WARNING", from_network(text, URL), ""),
            // Pending questions are shown above the requests.
            Event::Asked { .. }
            | Event::Answered { .. }
            | Event::TaskStart
            | Event::Dns { .. }
            | Event::Traffic(_) => return None,
        };
        row.time = entry.time.get(11..19).map_or_else(|| "-".to_owned(), |time| from_network(time, WORD));
        row.times = row.times.max(entry.repeated).max(1);
        Some(row)
    }

    /// The line of a call of a tool by the agent.
    pub(super) fn of_tool(tool: &ToolCall) -> Self {
        let place = name(&format!("{} {}", tool.name, tool.line), URL);
        let (time, more) = (time_of_day(tool.at_ms), "called by the agent".to_owned());
        Self { time, more, ..Self::new(Mark::Note, "TOOL", place, "") }
    }

    fn new(mark: Mark, what: &str, place: String, answer: &str) -> Self {
        Self {
            number: 0,
            time: String::new(),
            mark,
            what: from_network(what, WORD),
            place,
            answer: answer.to_owned(),
            more: String::new(),
            bytes_up: 0,
            bytes_down: 0,
            duration_ms: None,
            tokens: None,
            times: 1,
            asked: None,
        }
    }

    /// Whether it is the end of the open request or stream `open`.
    pub(super) fn ends(&self, open: &Self) -> bool {
        open.mark == Mark::Open
            && self.mark != Mark::Open
            && open.what == self.what
            && open.place == self.place
    }

    /// Whether it contains `filter`, which is in lower case.
    pub(super) fn contains(&self, filter: &str) -> bool {
        [&self.what, &self.place, &self.answer].iter().any(|text| text.to_ascii_lowercase().contains(filter))
    }
}

fn of_request(request: &RequestRecord) -> Row {
    let mark = match request.decision {
        RequestOutcome::Blocked => Mark::Blocked,
        RequestOutcome::Error => Mark::Failed,
        RequestOutcome::Allowed if request.shield_down => Mark::ShieldDown,
        RequestOutcome::Allowed => Mark::Allowed,
    };
    let answer = match (mark, request.reason, request.status) {
        (Mark::Blocked, Some(reason), _) => reason.to_string(),
        (Mark::Failed, _, _) => "failed".to_owned(),
        (_, _, Some(status)) => status.to_string(),
        _ => "-".to_owned(),
    };
    let more = match (&request.error, &request.rule) {
        (Some(error), _) => from_network(error, URL),
        (None, Some(rule)) => from_network(&rule.to_string(), URL),
        (None, None) => String::new(),
    };
    let is_up_to_rules = matches!(request.reason, None | Some(BlockReason::Policy(_)));
    Row {
        more,
        bytes_up: request.bytes_up,
        bytes_down: request.bytes_down,
        duration_ms: Some(request.duration_ms),
        tokens: request.tokens,
        asked: is_up_to_rules.then(|| asked(request)).flatten(),
        ..Row::new(mark, &request.method, url(request.scheme, &request.host, &request.target), &answer)
    }
}

/// The request, to derive rules from; `None` if it is too long for a readable rule.
fn asked(request: &RequestRecord) -> Option<Asked> {
    let RequestRecord { method, host, target, .. } = request;
    let is_short = method.len() + host.len() + target.len() <= ASKED;
    is_short.then(|| Asked {
        method: method.clone(),
        url: crate::commands::allowlist::url(request),
        count: 1,
        blocked: request.decision == RequestOutcome::Blocked,
        answered: request.decision == RequestOutcome::Allowed,
    })
}

fn of_stream(stream: &StreamRecord) -> Row {
    let (mark, answer) = match stream.decision {
        RequestOutcome::Allowed => (Mark::Allowed, "closed".to_owned()),
        RequestOutcome::Blocked => {
            (Mark::Blocked, stream.reason.map_or_else(|| "-".to_owned(), |reason| reason.to_string()))
        }
        RequestOutcome::Error => (Mark::Failed, "failed".to_owned()),
    };
    Row {
        more: stream.error.as_deref().map(|error| from_network(error, URL)).unwrap_or_default(),
        bytes_up: stream.bytes_up,
        bytes_down: stream.bytes_down,
        duration_ms: Some(stream.duration_ms),
        ..Row::new(mark, "STREAM", service(&stream.service, stream.port), &answer)
    }
}

fn url(scheme: Scheme, host: &str, target: &str) -> String {
    let host = from_network(host, URL);
    let host = if host.is_empty() { "-".to_owned() } else { host };
    format!("{scheme}://{host}{}", from_network(target, URL))
}

fn service(name: &str, port: u16) -> String {
    format!("{}:{port}", from_network(name, WORD))
}
