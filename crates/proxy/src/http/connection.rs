//! Serves one client connection, from its first byte of HTTP to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sandbox_proxy_protocol::{BlockReason, Event, RequestRecord};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::client::Client;
use super::framing::{Framed, HeadLimits};
use super::resets::{Resets, Unseen};
use super::service;
use crate::policy::QuarantineWatch;

/// How long a connection that is asked to close may take to do so.
const CLOSING: Duration = Duration::from_secs(5);
/// Bytes that a client may send on one HTTP/2 connection before the upstream has taken them. The
/// client is near, so a small window costs nothing; but a window smaller than what clients write at
/// once makes them wait for delayed acknowledgements.
const WINDOW: u32 = 256 * 1024;
/// Bytes of responses that may wait for the client on one HTTP/2 stream.
const SEND_BUFFER: usize = 32 * 1024;
/// Maximum concurrent requests on one HTTP/2 connection: on one opened while few others were open,
/// and on any other. A stream costs memory before anything is known about it, so all connections
/// together must not have too many.
const WIDE_STREAMS: u32 = 128;
const NARROW_STREAMS: u32 = 8;
/// How often a quiet HTTP/2 connection is pinged, and how long the response may take.
const PING: Duration = Duration::from_mins(1);
const PONG: Duration = Duration::from_secs(20);
/// Bytes by which a head may exceed the limit before it is refused unseen.
const COUNTED_BEYOND: usize = 16 * 1024;
/// Minimum size of the buffer that hyper reads a head into.
const SMALLEST_BUFFER: usize = 8 * 1024;

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// It was closed normally.
    Closed,
    /// No request came in time.
    Silent,
    /// It failed.
    Broken(hyper::Error),
}

/// Serves one connection to its end: over HTTP/2 if `http2`, else over HTTP/1. The connection
/// closes when it is idle for too long, when `stop` turns true and its requests are answered, and
/// at once when the task is quarantined.
pub(crate) async fn serve<S>(
    client: Arc<Client>,
    stream: S,
    http2: bool,
    mut stop: watch::Receiver<bool>,
) -> ConnectionEnd
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut quarantine = client.shared.gate.watch();
    let ended = if http2 {
        serve_http2(&client, stream, &mut stop, &mut quarantine).await
    } else {
        serve_http1(&client, stream, &mut stop, &mut quarantine).await
    };
    if let Some(tunnel) = client.take_tunnel() {
        tokio::select! {
            () = tunnel.run() => {}
            () = quarantine.begun() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
    match ended {
        Ok(()) if client.framing.was_silent() => ConnectionEnd::Silent,
        Ok(()) => ConnectionEnd::Closed,
        Err(error) => {
            if error.is_parse() && !http2 {
                record_unread(&client, Some(400));
            }
            ConnectionEnd::Broken(error)
        }
    }
}

async fn serve_http1<S>(
    client: &Arc<Client>,
    stream: S,
    stop: &mut watch::Receiver<bool>,
    quarantine: &mut QuarantineWatch,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = client.limits();
    let heads = HeadLimits {
        bytes: limits.head_bytes,
        headers: limits.headers,
        time: Duration::from_millis(limits.head_timeout_ms),
    };
    let framed = Framed::new(stream, heads, Arc::clone(&client.framing));
    let service = service_fn({
        let client = Arc::clone(client);
        // Boxed: while the response of a stream waits for its client, the stream must not keep the
        // memory that producing the response took.
        move |request| {
            let note = client.next_head();
            Box::pin(service::answer(Arc::clone(&client), request, note))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The reader in front of hyper has its own deadlines.
        .header_read_timeout(None)
        .preserve_header_case(true)
        .max_headers(limits.headers)
        .max_buf_size(limits.head_bytes.max(SMALLEST_BUFFER))
        .serve_connection(TokioIo::new(framed), service)
        .with_upgrades();
    supervise(
        std::pin::pin!(connection),
        http1::UpgradeableConnection::graceful_shutdown,
        client,
        stop,
        quarantine,
    )
    .await
}

async fn serve_http2<S>(
    client: &Arc<Client>,
    stream: S,
    stop: &mut watch::Receiver<bool>,
    quarantine: &mut QuarantineWatch,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = client.limits();
    let wide = client.wide();
    let streams = if wide.is_some() { WIDE_STREAMS } else { NARROW_STREAMS };
    let service = service_fn({
        let client = Arc::clone(client);
        // Boxed: while the response of a stream waits for its client, the stream must not keep the
        // memory that producing the response took.
        move |request| {
            client.next_head();
            Box::pin(service::answer(Arc::clone(&client), request, None))
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(streams)
        .max_send_buf_size(SEND_BUFFER)
        // Beyond this the response is 431 without a record; up to it the service counts bytes
        // itself, and records the refusal.
        .max_header_list_size(
            u32::try_from(limits.head_bytes.saturating_add(COUNTED_BEYOND)).unwrap_or(u32::MAX),
        )
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .serve_connection(TokioIo::new(Resets::new(stream, Arc::clone(client))), service);
    supervise(std::pin::pin!(connection), http2::Connection::graceful_shutdown, client, stop, quarantine)
        .await
}

/// Drives a connection, and ends it on `stop`, on quarantine and when it is idle for too long.
async fn supervise<C>(
    mut connection: Pin<&mut C>,
    close: impl Fn(Pin<&mut C>),
    client: &Client,
    stop: &mut watch::Receiver<bool>,
    quarantine: &mut QuarantineWatch,
) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    let idle = Duration::from_millis(client.limits().idle_timeout_ms);
    let mut deadline = Instant::now() + idle;
    let mut closing = false;
    let mut quarantined = std::pin::pin!(quarantine.begun());
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = &mut quarantined => return Ok(()),
            _ = stop.wait_for(|stop| *stop), if !closing => {
                closing = true;
                close(connection.as_mut());
                // The server cuts off connections that are not drained in time.
                deadline = Instant::now() + idle;
            }
            () = sleep_until(deadline) => {
                let now = Instant::now();
                match client.idle_since().map(|since| since + idle) {
                    Some(due) if due <= now && closing => return Ok(()),
                    Some(due) if due <= now => {
                        closing = true;
                        close(connection.as_mut());
                        deadline = now + CLOSING;
                    }
                    Some(due) => deadline = due,
                    None => deadline = now + idle,
                }
            }
        }
    }
}

impl Unseen for Arc<Client> {
    fn seen(&self) -> u64 {
        self.heads()
    }

    fn refused(&self) {
        record_unread(self, None);
    }
}

/// Records a head that hyper or h2 refused, with `status` or by a reset, before anything else saw
/// it: the record must not be missing.
fn record_unread(client: &Client, status: Option<u16>) {
    let host = client.server_name.as_ref().map(ToString::to_string);
    let record = RequestRecord {
        status,
        reason: Some(BlockReason::Framing),
        ..RequestRecord::asked(String::new(), client.scheme, host.unwrap_or_default(), String::new())
    };
    if client.shared.context.recorder.try_record(Event::Request(record)).is_err() {
        tracing::warn!("failed to record a malformed request");
    }
}
