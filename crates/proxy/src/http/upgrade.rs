//! WebSocket tunnels: bytes in both directions, once the upstream has agreed to the upgrade.
//!
//! Invariant: bytes pass unread only after we asked for the upgrade and the upstream itself
//! answered 101. An upstream that answers anything else gets no byte of the client that was not
//! parsed as HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sandbox_proxy_protocol::{Event, TunnelRecord};
use tokio::io::copy_bidirectional;
use tokio::sync::Notify;

use crate::accounting::Spending;
use crate::policy::Blocked;
use crate::record::{Slot, milliseconds};
use crate::stream::counted;
use crate::upstream::Lease;

/// A tunnel that passes no bytes for this long is closed.
const IDLE: Duration = Duration::from_mins(15);
/// How long both sides may take to switch after the 101.
const SWITCH: Duration = Duration::from_secs(10);

/// An upgraded connection that has not begun. It records itself when it is dropped.
pub(super) struct Tunnel {
    client: Option<OnUpgrade>,
    upstream: Option<OnUpgrade>,
    /// Keeps the upstream's connection open.
    _lease: Lease,
    started: Instant,
    /// Present until the record is written.
    record: Option<(Slot, TunnelRecord)>,
    up: Arc<AtomicU64>,
    down: Arc<AtomicU64>,
    spending: Option<Arc<Spending>>,
}

impl Tunnel {
    pub(super) fn new(
        client: OnUpgrade,
        upstream: OnUpgrade,
        lease: Lease,
        slot: Slot,
        record: TunnelRecord,
        spending: Option<Arc<Spending>>,
    ) -> Self {
        Self {
            client: Some(client),
            upstream: Some(upstream),
            _lease: lease,
            started: Instant::now(),
            record: Some((slot, record)),
            up: Arc::default(),
            down: Arc::default(),
            spending,
        }
    }

    /// Passes bytes until one side ends, both are idle, the budget is exceeded, or the future is
    /// dropped.
    pub(super) async fn run(mut self) {
        let (Some(client), Some(upstream)) = (self.client.take(), self.upstream.take()) else {
            return;
        };
        let both = async { tokio::try_join!(client, upstream) };
        let Ok(Ok((client, upstream))) = tokio::time::timeout(SWITCH, both).await else {
            return;
        };
        let exceeded = Notify::new();
        let spend = |count: fn(&Spending, u64) -> Result<(), Blocked>| {
            let (spending, exceeded) = (&self.spending, &exceeded);
            move |bytes| {
                if spending.as_ref().is_some_and(|spending| count(spending, bytes).is_err()) {
                    exceeded.notify_one();
                }
            }
        };
        let mut client = counted(TokioIo::new(client), &self.up, spend(Spending::send));
        let mut upstream = counted(TokioIo::new(upstream), &self.down, spend(Spending::receive));
        tokio::select! {
            // One buffer beyond the budget may have been written.
            biased;
            () = exceeded.notified() => {}
            _ = copy_bidirectional(&mut client, &mut upstream) => {}
            () = self.idle() => {}
        }
    }

    /// Completes when nothing was passed for a whole [`IDLE`].
    async fn idle(&self) {
        let passed = || self.up.load(Ordering::Relaxed) + self.down.load(Ordering::Relaxed);
        let mut before = passed();
        loop {
            // tidy: sleep: the deadline of two peers.
            tokio::time::sleep(IDLE).await;
            let now = passed();
            if now == before {
                return;
            }
            before = now;
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        if let Some((slot, mut record)) = self.record.take() {
            record.bytes_up = self.up.load(Ordering::Relaxed);
            record.bytes_down = self.down.load(Ordering::Relaxed);
            record.duration_ms = milliseconds(self.started);
            slot.record(Event::Tunnel(record));
        }
    }
}
