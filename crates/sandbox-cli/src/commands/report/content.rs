//! The content of the report on a run, and the parts of it that a report on many shares.

use std::collections::{BTreeMap, BTreeSet};

use allowlist::{Allowlist, Decision};
use sandbox::host_path::Resolver;
use sandbox::network::{LogEntry, NetworkLog};
use sandbox::network_event::{Event, RequestOutcome, RequestRecord, TunnelRecord};
use sandbox::session::{SessionReply, SessionStore};
use sandbox::workspace::GitChanges;
use sandbox::{Agent, SandboxError};
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::change_report::ChangeReport;
use crate::commands::allowlist::{ALLOWLIST, url};
use crate::commands::watch::Totals;
use crate::failure::Failure;
use crate::run_record::RunRecord;

/// The number of requests listed one by one; the log has all.
const MOST_REQUESTS: usize = 5_000;

/// The name of a credential of which only the use is recorded: by an older version, or in a log that
/// was almost full.
const UNNAMED: &str = "(not recorded)";

/// The content of the page. Nothing in it is safe to show unescaped.
///
/// [`json`] shows all of it; its version rises when a field changes its meaning or is removed.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) run: String,
    pub(super) project: String,
    pub(super) record: Option<RunRecord>,
    pub(super) totals: Totals,
    pub(super) hosts: BTreeMap<String, Host>,
    /// By the name of a masked credential.
    pub(super) credentials: BTreeMap<String, Credential>,
    /// By method, URL and reason.
    #[serde(serialize_with = "listed")]
    pub(super) refusals: BTreeMap<[String; 3], Refusal>,
    pub(super) requests: Vec<Row>,
    /// The number of requests that are not listed.
    pub(super) more_requests: u64,
    pub(super) replies: Vec<SessionReply>,
    /// Tasks can now write to the session's folder, so its conversation may be forged.
    pub(super) untrusted_session: bool,
    pub(super) changes: Vec<ShownChange>,
    /// Why the project's copy does not show them.
    pub(super) no_changes: Option<String>,
    pub(super) git: GitChanges,
    /// The number of changes that are not listed.
    pub(super) more_changes: usize,
}

/// The requests to a host.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Host {
    pub(super) allowed: u64,
    pub(super) blocked: u64,
    pub(super) failed: u64,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
}

/// The use of a masked credential.
#[derive(Debug, Default, Serialize)]
pub(super) struct Credential {
    pub(super) hosts: BTreeSet<String>,
    /// The number of requests that it was put into.
    pub(super) requests: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    pub(super) count: u64,
    /// How to allow it, if the policy refused it.
    pub(super) fix: Option<String>,
}

/// A request, in chronological order.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) time: String,
    #[serde(flatten)]
    pub(super) request: RequestRecord,
}

/// A change that waits in the copy.
#[derive(Debug, Serialize)]
pub(super) struct ShownChange {
    #[serde(flatten)]
    pub(super) facts: ChangeReport,
    /// Its line, the reason why it is withheld, and its patch.
    pub(super) text: String,
}

/// The document of `--output json`.
pub(super) fn json<T: Serialize>(report: &T) -> String {
    #[derive(Serialize)]
    struct Document<'a, T> {
        version: u32,
        #[serde(flatten)]
        report: &'a T,
    }
    // Serializing texts and numbers cannot fail.
    serde_json::to_string(&Document { version: 1, report }).unwrap_or_default()
}

fn listed<S: Serializer>(
    refusals: &BTreeMap<[String; 3], Refusal>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Listed<'a> {
        method: &'a str,
        url: &'a str,
        reason: &'a str,
        #[serde(flatten)]
        refusal: &'a Refusal,
    }
    serializer.collect_seq(refusals.iter().map(|([method, url, reason], refusal)| Listed {
        method,
        url,
        reason,
        refusal,
    }))
}

/// Passes each entry of the log to `take`, and counts those that this program cannot read. A run
/// without a proxy has no log.
pub(super) fn each_entry(log: &NetworkLog, mut take: impl FnMut(LogEntry)) -> Result<u64, Failure> {
    let mut unread = 0;
    if !log.exists() {
        return Ok(unread);
    }
    let reading = || format!("read the network log `{}`", log.json_path().display());
    for entry in log.entries().map_err(Failure::doing(reading()))? {
        match entry {
            Ok(entry) => take(entry),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => unread += 1,
            Err(error) => return Err(Failure::doing(reading())(error)),
        }
    }
    Ok(unread)
}

/// Method, URL and reason of a refused request.
pub(super) fn refused(request: &RequestRecord) -> [String; 3] {
    let reason = request.reason.map(|reason| reason.to_string()).unwrap_or_default();
    [request.method.clone(), url(request), reason]
}

/// How to allow a request. `None` if it is now allowed, or was not refused by the policy.
pub(super) fn fix(policy: &Allowlist, [method, url, _]: &[String; 3]) -> Option<String> {
    match policy.judge(method, url) {
        Decision::Deny(denial) => Some(denial.message_naming(ALLOWLIST)),
        _ => None,
    }
}

impl Host {
    /// Adds `count` equal requests.
    pub(super) fn add(&mut self, request: &RequestRecord, count: u64) {
        let requests = match request.decision {
            RequestOutcome::Allowed => &mut self.allowed,
            RequestOutcome::Blocked => &mut self.blocked,
            RequestOutcome::Error => &mut self.failed,
        };
        *requests = requests.saturating_add(count);
        self.carried(request.bytes_up, request.bytes_down);
    }

    /// Adds the requests to another host.
    pub(super) fn merge(&mut self, other: &Self) {
        self.allowed = self.allowed.saturating_add(other.allowed);
        self.blocked = self.blocked.saturating_add(other.blocked);
        self.failed = self.failed.saturating_add(other.failed);
        self.carried(other.bytes_up, other.bytes_down);
    }

    /// Adds bytes.
    pub(super) fn carried(&mut self, up: u64, down: u64) {
        self.bytes_up = self.bytes_up.saturating_add(up);
        self.bytes_down = self.bytes_down.saturating_add(down);
    }
}

impl Report {
    pub(super) fn read_log(&mut self, log: &NetworkLog, policy: &Allowlist) -> Result<(), Failure> {
        self.totals.unread = each_entry(log, |entry| self.take(entry, policy))?;
        Ok(())
    }

    pub(super) fn take(&mut self, entry: LogEntry, policy: &Allowlist) {
        self.totals.add(&entry);
        let LogEntry { time, event, repeated, .. } = entry;
        let request = match event {
            Event::Request(request) => request,
            Event::Tunnel(TunnelRecord { host, bytes_up, bytes_down, .. }) => {
                return self.hosts.entry(host).or_default().carried(bytes_up, bytes_down);
            }
            _ => return,
        };
        let count = repeated.max(1);
        self.hosts.entry(request.host.clone()).or_default().add(&request, count);
        let unnamed = (request.masked > 0 && request.credentials.is_empty()).then_some(UNNAMED);
        let named = request.credentials.iter().map(String::as_str).chain(unnamed);
        // A request can be refused after its credentials were replaced.
        for name in named.filter(|_| request.decision != RequestOutcome::Blocked) {
            let credential = self.credentials.entry(name.to_owned()).or_default();
            credential.hosts.insert(request.host.clone());
            credential.requests = credential.requests.saturating_add(count);
        }
        if request.decision == RequestOutcome::Blocked {
            let refused = refused(&request);
            let fix = fix(policy, &refused);
            let refusal = self.refusals.entry(refused).or_insert(Refusal { count: 0, fix });
            refusal.count = refusal.count.saturating_add(count);
        }
        if self.requests.len() < MOST_REQUESTS {
            self.requests.push(Row { time, request });
        } else {
            self.more_requests = self.more_requests.saturating_add(count);
        }
    }

    /// The conversation of this run only, not of others in the same session.
    pub(super) fn read_session(&mut self, resolver: &Resolver) -> Result<(), Failure> {
        let Some(record) = &self.record else { return Ok(()) };
        let Some(session) = &record.session else { return Ok(()) };
        match resolver.find(&session.folder) {
            Err(error) if error.is_not_found() => return Ok(()),
            found => self.untrusted_session = found?.is_untrusted(),
        }
        if self.untrusted_session {
            return Ok(());
        }
        let store = SessionStore::of_agent(&session.folder, &session.context, &session.agent, Agent::NAMES);
        let loaded = store.and_then(|store| store.load()).map_err(SandboxError::from)?;
        let time = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
        let began = time(&record.began);
        let ended = record.end.as_ref().and_then(|end| {
            let took = i64::try_from(end.duration_ms).ok()?;
            began?.checked_add(time::Duration::milliseconds(took))
        });
        let replies = loaded.map(|session| session.replies).unwrap_or_default();
        self.replies = replies
            .into_iter()
            .filter(|reply| {
                let at = time(&reply.timestamp);
                at >= began && ended.is_none_or(|ended| at <= Some(ended))
            })
            .collect();
        Ok(())
    }
}
