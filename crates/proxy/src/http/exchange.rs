//! One request from its head to its end, and its record.
//!
//! Invariant: every exchange leaves exactly one record, however it ends: the record is written when
//! the exchange is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use allowlist::VendorTool;
use http::{Extensions, HeaderMap, StatusCode};
use sandbox_proxy_protocol::{Event, OpenRequest, RequestOutcome, RequestRecord};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tracing::Span;

use super::activity::Active;
use super::deny::Audience;
use crate::accounting::{Spending, UsageReader};
use crate::credential::Plan;
use crate::policy::{Blocked, Permit};
use crate::record::{LogBudget, Recorder, Slot, milliseconds};
use crate::scrub::{Needles, scrub_headers, scrub_reason};
use crate::upload::{UploadCounter, UploadErrorSlot};

/// How long a permitted request may last before it is recorded as in progress, in case its owner
/// dies before it ends.
const MOMENT: Duration = Duration::from_secs(1);
/// Maximum characters of a host name.
const NAME: usize = 253;

/// A request that is not decided yet.
#[derive(Debug)]
pub(super) struct Asked {
    /// Its record so far.
    pub(super) record: RequestRecord,
    /// Whether the client prefers HTML to JSON.
    pub(super) html: bool,
}

impl Asked {
    /// The recipient of a refusal.
    pub(super) fn audience(&self) -> Audience<'_> {
        audience(&self.record, self.html)
    }

    /// The span of the request, within that of its `connection`. It never contains the query, the
    /// headers or the body.
    pub(super) fn span(&self, connection: &Span) -> Span {
        let RequestRecord { method, host, .. } = &self.record;
        tracing::info_span!(parent: connection, "request", method = shortened(method), host = shortened(host))
    }
}

/// Shortens a name: a client may send one as long as a head.
fn shortened(text: &str) -> &str {
    let end = text.char_indices().nth(NAME).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or_default()
}

/// A request in progress.
pub(super) struct Exchange {
    started: Instant,
    /// Present until the record is written.
    slot: Option<Slot>,
    record: RequestRecord,
    html: bool,
    uploaded: Arc<AtomicU64>,
    scrubbed: Arc<AtomicU32>,
    /// The spending that its bytes and tokens count towards; `None` where nothing bounds them.
    spending: Option<Arc<Spending>>,
    /// Reads the tokens that a model vendor reports.
    usage: Option<UsageReader>,
    /// Records that the request is in progress.
    announcement: Option<AbortHandle>,
    _permit: Option<OwnedSemaphorePermit>,
    _active: Active,
}

impl Exchange {
    /// Begins an exchange whose record goes to `slot`; `permit` is `None` where none was available.
    pub(super) fn begin(
        asked: Asked,
        slot: Slot,
        permit: Option<OwnedSemaphorePermit>,
        active: Active,
    ) -> Self {
        Self {
            started: Instant::now(),
            slot: Some(slot),
            record: asked.record,
            html: asked.html,
            uploaded: Arc::default(),
            scrubbed: Arc::default(),
            spending: None,
            usage: None,
            announcement: None,
            _permit: permit,
            _active: active,
        }
    }

    /// The recipient of a refusal.
    pub(super) fn audience(&self) -> Audience<'_> {
        audience(&self.record, self.html)
    }

    /// Records that the request waits for the answer to `question`.
    pub(super) fn asked(&mut self, question: u64) {
        self.record.question = Some(question);
    }

    /// Records that the gate permitted it. Without a rule or an answer, that is because the shield
    /// is down.
    pub(super) fn allowed(&mut self, permit: &Permit) {
        self.record.decision = RequestOutcome::Allowed;
        permit.host().as_str().clone_into(&mut self.record.host);
        self.record.rule = permit.rule().cloned();
        self.record.question = permit.question();
        self.record.shield_down = self.record.rule.is_none() && self.record.question.is_none();
    }

    /// Takes a request from `spending`, which counts its bytes and tokens from now on.
    ///
    /// # Errors
    ///
    /// If no request is left.
    pub(super) fn spend(&mut self, spending: &Arc<Spending>) -> Result<(), Blocked> {
        spending.take_request()?;
        self.spending = Some(Arc::clone(spending));
        Ok(())
    }

    /// The spending that its bytes count towards.
    pub(super) fn spending(&self) -> Option<Arc<Spending>> {
        self.spending.clone()
    }

    /// Takes room in `log` for its record and, if `tunnel`, for that of the tunnel that it may
    /// become. Returns whether there was enough.
    pub(super) fn fits(&self, log: &LogBudget, tunnel: bool) -> bool {
        log.take(&self.record) && (!tunnel || log.take(&self.record))
    }

    /// Has the request recorded as in progress unless it ends within [`MOMENT`].
    pub(super) fn announce(&mut self, recorder: &Recorder) {
        let recorder = recorder.clone();
        let open = OpenRequest {
            method: self.record.method.clone(),
            scheme: self.record.scheme,
            host: self.record.host.clone(),
            target: self.record.target.clone(),
        };
        let announcement = tokio::spawn(async move {
            // tidy: sleep: the moment within which most requests end.
            tokio::time::sleep(MOMENT).await;
            if recorder.try_record(Event::RequestOpen(open)).is_err() {
                tracing::warn!("failed to record a request in progress");
            }
        });
        self.announcement = Some(announcement.abort_handle());
    }

    /// Records what happened to its credentials; their names only if `log` has room for them.
    pub(super) fn planned(&mut self, plan: &Plan, log: &LogBudget) {
        if log.take_names(&plan.credentials) {
            self.record.credentials.clone_from(&plan.credentials);
        }
        self.record.masked = plan.masked;
        self.record.dropped = plan.dropped;
        self.record.region.clone_from(&plan.region);
    }

    /// Records the tools of a model's vendor that were removed from its body.
    pub(super) fn removed(&mut self, removed: Vec<VendorTool>) {
        self.record.removed = removed;
    }

    /// Records that it was refused.
    pub(super) fn blocked(&mut self, denial: &Blocked) {
        self.record.decision = RequestOutcome::Blocked;
        self.record.reason = Some(denial.reason());
        self.record.ref_name = denial.push_report().map(|report| report.ref_name().to_owned());
    }

    /// Records that it failed, and why.
    pub(super) fn failed(&mut self, error: String) {
        self.record.decision = RequestOutcome::Error;
        self.record.error = Some(error);
    }

    /// Records that the head of the response is on its way.
    pub(super) fn answered(&mut self, status: StatusCode) {
        self.record.status = Some(status.as_u16());
        self.record.first_byte_ms = Some(milliseconds(self.started));
    }

    /// Has tokens read from the response's body, which may report them.
    pub(super) fn read_usage(&mut self) {
        self.usage = Some(UsageReader::default());
    }

    /// Counts more bytes of a body on its way to the client.
    pub(super) fn downloaded(&mut self, bytes: usize) {
        self.record.bytes_down += bytes as u64;
    }

    /// Counts more data of the upstream's body.
    ///
    /// # Errors
    ///
    /// If the data exceeds the budget: it must not be forwarded.
    pub(super) fn received(&mut self, data: &[u8]) -> Result<(), Blocked> {
        if let Some(spending) = &self.spending {
            spending.receive(data.len() as u64)?;
        }
        if let (Some(spending), Some(usage)) = (&self.spending, &mut self.usage)
            && let Some(more) = usage.read(data)
        {
            spending.report(more);
            // Without a budget the log contains no tokens.
            self.record.tokens = spending.is_bounded().then_some(usage.reported());
        }
        Ok(())
    }

    /// A counter of the bytes of the request's body that go to the upstream. It aborts the body
    /// with `error` if they exceed the budget.
    pub(super) fn upload_counter(&self, error: &UploadErrorSlot) -> UploadCounter {
        UploadCounter::new(Arc::clone(&self.uploaded), self.spending(), Arc::clone(error))
    }

    /// The headers of a response without the values in `needles`.
    pub(super) fn scrubbed_headers(&self, needles: &Needles, headers: HeaderMap) -> HeaderMap {
        let (headers, count) = scrub_headers(needles, headers);
        self.scrubbed.fetch_add(count, Ordering::Relaxed);
        headers
    }

    /// Replaces the values in `needles` in the reason phrase.
    pub(super) fn scrub_reason(&self, needles: &Needles, extensions: &mut Extensions) {
        let count = scrub_reason(needles, extensions);
        self.scrubbed.fetch_add(count, Ordering::Relaxed);
    }

    /// The counter of real values removed from the response.
    pub(super) fn scrub_counter(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.scrubbed)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(announcement) = &self.announcement {
            announcement.abort();
        }
        if std::thread::panicking() {
            self.failed(
                "the proxy panicked: this is a bug in it, and its standard error shows where".to_owned(),
            );
        }
        let Some(slot) = self.slot.take() else { return };
        let empty = RequestRecord::asked(String::new(), self.record.scheme, String::new(), String::new());
        slot.record(Event::Request(RequestRecord {
            bytes_up: self.uploaded.load(Ordering::Relaxed),
            scrubbed: self.scrubbed.load(Ordering::Relaxed),
            duration_ms: milliseconds(self.started),
            ..std::mem::replace(&mut self.record, empty)
        }));
    }
}

fn audience(record: &RequestRecord, html: bool) -> Audience<'_> {
    Audience {
        method: &record.method,
        host: &record.host,
        path: record.target.split('?').next().unwrap_or_default(),
        html,
    }
}
