//! Sends permitted requests to their upstreams.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::outgoing::Outgoing;
use crate::upload::Upload;
use crate::upstream::{Failure, Lease, Pool, UpstreamError};

/// Maximum attempts to send a request over connections that turn out to be closed; the last attempt
/// gets a new connection.
const TRIES: usize = 3;

/// Forwards a request. Returns the response when its head has arrived, with its body still on its
/// way.
pub(super) async fn forward(
    pool: &Arc<Pool>,
    outgoing: &Outgoing,
    body: Upload,
    response_timeout: Option<Duration>,
) -> Result<(Response<Incoming>, Lease), UpstreamError> {
    if let Some(line) = outgoing.raw_line() {
        // Only HTTP/1 can carry the target as it was received.
        let lease = pool.lease_http1(&outgoing.destination, Some(line)).await?;
        return try_over(lease, outgoing, body, response_timeout).await;
    }
    let mut body = body;
    for _ in 1..TRIES {
        let lease = pool.lease(&outgoing.destination).await?;
        let reused = lease.is_reused();
        match attempt(lease, outgoing, body, response_timeout).await {
            Ok(answered) => return Ok(answered),
            // Nothing of it was sent: the connection had been closed meanwhile.
            Err(Unanswered { body: Some(unsent), .. }) if reused => body = unsent,
            Err(Unanswered { error, .. }) => return Err(error),
        }
    }
    let lease = pool.lease_new(&outgoing.destination).await?;
    attempt(lease, outgoing, body, response_timeout).await.map_err(|unanswered| unanswered.error)
}

struct Unanswered {
    error: UpstreamError,
    body: Option<Upload>,
}

/// One attempt over one connection.
pub(super) async fn try_over(
    lease: Lease,
    outgoing: &Outgoing,
    body: Upload,
    response_timeout: Option<Duration>,
) -> Result<(Response<Incoming>, Lease), UpstreamError> {
    attempt(lease, outgoing, body, response_timeout).await.map_err(|unanswered| unanswered.error)
}

async fn attempt(
    mut lease: Lease,
    outgoing: &Outgoing,
    body: Upload,
    response_timeout: Option<Duration>,
) -> Result<(Response<Incoming>, Lease), Unanswered> {
    let request = outgoing.shape(lease.is_http2(), body);
    let sending = lease.send(request);
    let sent = match response_timeout {
        None => sending.await,
        Some(response_timeout) => timeout(response_timeout, sending).await.map_err(|_| Unanswered {
            error: UpstreamError::of_text(Failure::Timeout, "the answer did not begin in time"),
            body: None,
        })?,
    };
    match sent {
        Ok(response) => Ok((response, lease)),
        Err(failed) => {
            let error = match &failed.error {
                Some(error) => UpstreamError::new(kind(error), error),
                None => UpstreamError::of_text(Failure::Reset, "the connection is gone"),
            };
            Err(Unanswered { error, body: failed.request.map(|request| request.into_body()) })
        }
    }
}

fn kind(error: &hyper::Error) -> Failure {
    let mut next = error.source();
    while let Some(cause) = next {
        let io = cause.downcast_ref::<std::io::Error>();
        if io.is_some_and(|cause| cause.kind() == std::io::ErrorKind::TimedOut) {
            return Failure::Timeout;
        }
        next = cause.source();
    }
    Failure::Reset
}
