//! One request from its head to its end, and the record of it.
//!
//! Invariant: every exchange leaves exactly one record, whoever ends it: the record is written when
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
use crate::upload::{UploadCounter, UploadFault};

/// How long a permitted request may last before it is on record that it goes on: what its owner
/// does not live to see the end of.
const MOMENT: Duration = Duration::from_secs(1);
/// Characters of a host's name at most.
const NAME: usize = 253;

/// A request about which nothing was decided yet.
#[derive(Debug)]
pub(super) struct Asked {
    /// What is known of it.
    pub(super) record: RequestRecord,
    /// The client would rather have HTML than JSON.
    pub(super) html: bool,
}

impl Asked {
    /// Whom a refusal is for.
    pub(super) fn audience(&self) -> Audience<'_> {
        audience(&self.record, self.html)
    }

    /// The span of the request, in that of its `connection`: never its query, its headers or its
    /// body.
    pub(super) fn span(&self, connection: &Span) -> Span {
        let RequestRecord { method, host, .. } = &self.record;
        tracing::info_span!(parent: connection, "request", method = shortened(method), host = shortened(host))
    }
}

/// A client may claim a name as long as a head.
fn shortened(text: &str) -> &str {
    let end = text.char_indices().nth(NAME).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or_default()
}

/// A request in progress.
pub(super) struct Exchange {
    started: Instant,
    /// Until the record is written.
    slot: Option<Slot>,
    record: RequestRecord,
    html: bool,
    uploaded: Arc<AtomicU64>,
    scrubbed: Arc<AtomicU32>,
    /// What its bytes and tokens count against; none where nothing bounds them.
    spending: Option<Arc<Spending>>,
    /// Reads what a model's vendor reports.
    usage: Option<UsageReader>,
    /// Records that it goes on.
    announcement: Option<AbortHandle>,
    _permit: Option<OwnedSemaphorePermit>,
    _active: Active,
}

impl Exchange {
    /// Begins an exchange whose record goes to `slot`; without a permit where there was none to be
    /// had.
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

    /// Whom a refusal is for.
    pub(super) fn audience(&self) -> Audience<'_> {
        audience(&self.record, self.html)
    }

    /// It waits for the answer to `question`.
    pub(super) fn asked(&mut self, question: u64) {
        self.record.question = Some(question);
    }

    /// The gate permitted it; without a rule or an answer because the shield is down.
    pub(super) fn allowed(&mut self, permit: &Permit) {
        self.record.decision = RequestOutcome::Allowed;
        permit.host().as_str().clone_into(&mut self.record.host);
        self.record.rule = permit.rule().cloned();
        self.record.question = permit.question();
        self.record.shield_down = self.record.rule.is_none() && self.record.question.is_none();
    }

    /// Takes a request from `spending`; its bytes and tokens count from now on.
    ///
    /// # Errors
    ///
    /// When there is none left.
    pub(super) fn spend(&mut self, spending: &Arc<Spending>) -> Result<(), Blocked> {
        spending.take_request()?;
        self.spending = Some(Arc::clone(spending));
        Ok(())
    }

    /// What its bytes count against.
    pub(super) fn spending(&self) -> Option<Arc<Spending>> {
        self.spending.clone()
    }

    /// Whether the log has room for it, and for the tunnel that it may become.
    pub(super) fn fits(&self, log: &LogBudget, tunnel: bool) -> bool {
        log.take(&self.record) && (!tunnel || log.take(&self.record))
    }

    /// Has it recorded that it goes on, unless it ends within a moment.
    pub(super) fn announce(&mut self, recorder: &Recorder) {
        let recorder = recorder.clone();
        let open = OpenRequest {
            method: self.record.method.clone(),
            scheme: self.record.scheme,
            host: self.record.host.clone(),
            target: self.record.target.clone(),
        };
        let announcement = tokio::spawn(async move {
            // tidy: sleep: the moment that most requests are over in.
            tokio::time::sleep(MOMENT).await;
            if recorder.try_record(Event::RequestOpen(open)).is_err() {
                tracing::warn!("a request in progress could not be recorded");
            }
        });
        self.announcement = Some(announcement.abort_handle());
    }

    /// This became of its credentials.
    pub(super) fn planned(&mut self, plan: &Plan) {
        self.record.masked = plan.masked;
        self.record.dropped = plan.dropped;
        self.record.region.clone_from(&plan.region);
    }

    /// These tools of a model's vendor are not in its body any more.
    pub(super) fn removed(&mut self, removed: Vec<VendorTool>) {
        self.record.removed = removed;
    }

    /// It was refused.
    pub(super) fn blocked(&mut self, denial: &Blocked) {
        self.record.decision = RequestOutcome::Blocked;
        self.record.reason = Some(denial.reason());
        self.record.ref_name = denial.push_report().map(|report| report.ref_name().to_owned());
    }

    /// The upstream failed.
    pub(super) fn failed(&mut self, error: String) {
        self.record.decision = RequestOutcome::Error;
        self.record.error = Some(error);
    }

    /// The head of the answer is on its way.
    pub(super) fn answered(&mut self, status: StatusCode) {
        self.record.status = Some(status.as_u16());
        self.record.first_byte_ms = Some(milliseconds(self.started));
    }

    /// The answer's body may report tokens.
    pub(super) fn read_usage(&mut self) {
        self.usage = Some(UsageReader::default());
    }

    /// More of a body is on its way to the client.
    pub(super) fn downloaded(&mut self, bytes: usize) {
        self.record.bytes_down += bytes as u64;
    }

    /// More of the upstream's body has come.
    ///
    /// # Errors
    ///
    /// When it exceeds the budget: it must not be passed on.
    pub(super) fn received(&mut self, data: &[u8]) -> Result<(), Blocked> {
        if let Some(spending) = &self.spending {
            spending.receive(data.len() as u64)?;
        }
        if let (Some(spending), Some(usage)) = (&self.spending, &mut self.usage)
            && let Some(more) = usage.read(data)
        {
            spending.report(more);
            // Without a budget the log is as it always was.
            self.record.tokens = spending.is_bounded().then_some(usage.reported());
        }
        Ok(())
    }

    /// Counts the bytes of the request's body that go to the upstream, and breaks it off with
    /// `fault` where they exceed the budget.
    pub(super) fn upload_counter(&self, fault: &UploadFault) -> UploadCounter {
        UploadCounter::new(Arc::clone(&self.uploaded), self.spending(), Arc::clone(fault))
    }

    /// The headers of an answer without what is in `needles`.
    pub(super) fn scrubbed_headers(&self, needles: &Needles, headers: HeaderMap) -> HeaderMap {
        let (headers, count) = scrub_headers(needles, headers);
        self.scrubbed.fetch_add(count, Ordering::Relaxed);
        headers
    }

    /// Takes what is in `needles` out of the words beside the status.
    pub(super) fn scrub_reason(&self, needles: &Needles, extensions: &mut Extensions) {
        let count = scrub_reason(needles, extensions);
        self.scrubbed.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts the real values that were taken out of the answer.
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
                "the proxy panicked: this is a fault in it, and its standard error says where".to_owned(),
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
