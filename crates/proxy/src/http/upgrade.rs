//! WebSocket: bytes both ways, once the upstream has agreed to it.
//!
//! Invariant: bytes pass unread only after we asked for the upgrade and the upstream itself answered 101. An upstream that answers
//! anything else gets no byte of the client that was not read as HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sandbox_proxy_protocol::{Event, TunnelRecord};
use tokio::io::copy_bidirectional;

use crate::blocked::Blocked;
use crate::budget::Spending;
use crate::record::{Slot, milliseconds};
use crate::stream::counted;
use crate::upstream::Lease;

/// A tunnel over which nothing goes for so long is closed.
const IDLE: Duration = Duration::from_mins(15);
/// How long both sides may take to switch after the 101.
const SWITCH: Duration = Duration::from_secs(10);

/// How often what went through a tunnel is counted against the budget.
const COUNTED: Duration = Duration::from_secs(1);

/// An upgraded connection that has not begun. It records itself when it is dropped.
pub(super) struct Tunnel {
    client: Option<OnUpgrade>,
    upstream: Option<OnUpgrade>,
    /// Keeps the upstream's connection.
    _lease: Lease,
    started: Instant,
    /// Until it is written.
    record: Option<(Slot, TunnelRecord)>,
    up: Arc<AtomicU64>,
    down: Arc<AtomicU64>,
    spending: Option<Arc<Spending>>,
    /// What of `up` and `down` counted against it already.
    spent: [AtomicU64; 2],
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
            spent: Default::default(),
        }
    }

    /// Passes bytes until one side ends, both are idle, or the future is dropped.
    pub(super) async fn run(mut self) {
        let (Some(client), Some(upstream)) = (self.client.take(), self.upstream.take()) else {
            return;
        };
        let both = async { tokio::try_join!(client, upstream) };
        let Ok(Ok((client, upstream))) = tokio::time::timeout(SWITCH, both).await else {
            return;
        };
        let mut client = counted(TokioIo::new(client), &self.up);
        let mut upstream = counted(TokioIo::new(upstream), &self.down);
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut upstream) => {}
            () = self.idle() => {}
            () = self.exceeds() => {}
        }
    }

    /// Ends when nothing was passed for a while.
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

    /// Ends when what was passed exceeds the budget.
    async fn exceeds(&self) {
        while self.spend().is_ok() {
            // tidy: sleep: what is passed is counted from time to time.
            tokio::time::sleep(COUNTED).await;
        }
    }

    /// Counts what was passed since the last time.
    fn spend(&self) -> Result<(), Blocked> {
        let Some(spending) = &self.spending else { return Ok(()) };
        let [up, down] = [&self.up, &self.down].map(|passed| passed.load(Ordering::Relaxed));
        let [spent_up, spent_down] = &self.spent;
        let sent = spending.send(up.saturating_sub(spent_up.swap(up, Ordering::Relaxed)));
        let received = spending.receive(down.saturating_sub(spent_down.swap(down, Ordering::Relaxed)));
        sent.and(received)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.spend();
        if let Some((slot, mut record)) = self.record.take() {
            record.bytes_up = self.up.load(Ordering::Relaxed);
            record.bytes_down = self.down.load(Ordering::Relaxed);
            record.duration_ms = milliseconds(self.started);
            slot.record(Event::Tunnel(record));
        }
    }
}
