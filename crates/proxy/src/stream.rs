//! A connection to a service, which is passed through unchanged, and its record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sandbox_proxy_protocol::{BlockReason, Event, HostService, OpenStream, RequestOutcome, StreamRecord};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::io::InspectReader;

use crate::context::Context;
use crate::policy::Gate;
use crate::record::{LogBudget, Slot, milliseconds};
use crate::services::{RelayError, connect};

/// How long a connection may last before it is recorded as open.
const MOMENT: Duration = Duration::from_secs(1);

/// A client's connection to a service. It is recorded when it is dropped.
pub(crate) struct ServiceStream {
    started: Instant,
    /// `None` once it is written.
    record: Option<(Slot, StreamRecord)>,
    up: Arc<AtomicU64>,
    down: Arc<AtomicU64>,
}

impl ServiceStream {
    /// Passes bytes between `client` and `service` until the connection ends, the task is cut off,
    /// or `stop` turns true. Does nothing if it cannot be recorded.
    pub(crate) async fn serve(
        context: &Context,
        gate: &Gate,
        log: &LogBudget,
        service: &HostService,
        client: TcpStream,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut cut = gate.watch();
        let Ok(slot) = context.recorder.reserve().await else { return };
        let mut stream = Self {
            started: Instant::now(),
            record: Some((slot, asked(service))),
            up: Arc::default(),
            down: Arc::default(),
        };
        let closed = gate.closed().map(|denial| denial.reason());
        if let Some(reason) = closed.or_else(|| (!log.take_stream()).then_some(BlockReason::Limit)) {
            return stream.refused(reason);
        }
        tokio::select! {
            () = stream.pass(context, service, client) => {}
            () = cut.begun() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn pass(&mut self, context: &Context, service: &HostService, client: TcpStream) {
        let connect_timeout = Duration::from_millis(context.limits.connect_timeout_ms);
        let connected = timeout(connect_timeout, connect(&service.socket)).await;
        let upstream = match connected.unwrap_or(Err(RelayError::Timeout)) {
            Ok(upstream) => upstream,
            Err(error) => return self.failed(&error),
        };
        let mut client = counted(client, &self.up, |_| {});
        let mut upstream = counted(upstream, &self.down, |_| {});
        let both = copy_bidirectional(&mut client, &mut upstream);
        let announced = async {
            // tidy: sleep: short connections end within this time.
            tokio::time::sleep(MOMENT).await;
            let open = OpenStream { service: service.name.clone(), port: service.port };
            if context.recorder.try_record(Event::StreamOpen(open)).is_err() {
                tracing::warn!("failed to record a connection in progress");
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            // A broken connection has ended, too.
            _ = both => {}
            () = announced => {}
        }
    }

    fn refused(&mut self, reason: BlockReason) {
        if let Some((_, record)) = &mut self.record {
            record.decision = RequestOutcome::Blocked;
            record.reason = Some(reason);
        }
    }

    fn failed(&mut self, error: &RelayError) {
        if let Some((_, record)) = &mut self.record {
            record.decision = RequestOutcome::Error;
            record.error = Some(format!("Connect: {error}"));
        }
    }
}

impl Drop for ServiceStream {
    fn drop(&mut self) {
        if let Some((slot, record)) = self.record.take() {
            slot.record(Event::Stream(StreamRecord {
                bytes_up: self.up.load(Ordering::Relaxed),
                bytes_down: self.down.load(Ordering::Relaxed),
                duration_ms: milliseconds(self.started),
                ..record
            }));
        }
    }
}

fn asked(service: &HostService) -> StreamRecord {
    StreamRecord {
        decision: RequestOutcome::Allowed,
        service: service.name.clone(),
        port: service.port,
        reason: None,
        error: None,
        bytes_up: 0,
        bytes_down: 0,
        duration_ms: 0,
    }
}

/// Counts the bytes that one side of a connection sends, and calls `also` with each number.
pub(crate) fn counted<S, F>(
    side: S,
    count: &Arc<AtomicU64>,
    also: F,
) -> impl AsyncRead + AsyncWrite + Unpin + use<S, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(u64),
{
    let count = Arc::clone(count);
    InspectReader::new(side, move |bytes: &[u8]| {
        let bytes = bytes.len() as u64;
        count.fetch_add(bytes, Ordering::Relaxed);
        also(bytes);
    })
}
