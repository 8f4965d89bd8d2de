//! Requests whose body decides: the body is read until the policy has decided, and only then is
//! there a permit.

use allowlist::VendorTool;
use http::header::CONTENT_ENCODING;
use http::request::Parts;
use hyper::body::Incoming;
use sandbox_proxy_protocol::BlockReason;

use super::client::Client;
use crate::policy::{Blocked, Pending, Permit};
use crate::upload::{BufferError, Decided, DrainedBody, RequestBody, Undecided, inspect};

/// Reads the body until the policy has decided. Returns the permit for the request, its body, of
/// which some was read, and the tools that were removed from the body.
pub(super) async fn decide_by_body(
    client: &Client,
    mut pending: Pending,
    parts: &Parts,
    body: Incoming,
) -> Result<(Permit, RequestBody, Vec<VendorTool>), Blocked> {
    let drained = DrainedBody::for_request(&parts.headers);
    let mut encodings = parts.headers.get_all(CONTENT_ENCODING).iter();
    if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        drained.drain(body);
        return Err(Blocked::new(
            allowlist::Reason::Body,
            "whether this is allowed depends on the request's body, which is compressed: send it without Content-Encoding",
        ));
    }
    let gate = &client.shared.gate;
    let limit = pending.limit();
    let look = |so_far: &[u8], ended| -> Result<_, Blocked> {
        let passed = gate.advance(&mut pending, so_far, ended)?;
        Ok(passed.map(|passed| Decided {
            found: (passed.permit, passed.removed),
            replacement: passed.body,
            pushes: passed.fast_forwards,
        }))
    };
    match inspect(body, limit, &client.shared.signing_room, drained, look).await {
        Ok(((permit, removed), body)) => Ok((permit, body, removed)),
        Err(Undecided::Denied(denial, rest)) => {
            let has_pack = denial.push_report().is_some();
            if has_pack { DrainedBody::Pack } else { DrainedBody::Short }.drain(rest);
            Err(denial)
        }
        Err(Undecided::Unread(error)) => Err(unread(client, error)),
    }
}

fn unread(client: &Client, error: BufferError) -> Blocked {
    match error {
        BufferError::TooLarge => Blocked::new(
            allowlist::Reason::Body,
            "whether this is allowed depends on the request's body, which is too long to be read: send less at once",
        ),
        BufferError::Full => {
            Blocked::new(BlockReason::Limit, "too many bodies are being read: try again later")
        }
        BufferError::Stalled => {
            Blocked::new(BlockReason::Timeout, "the body of the request did not arrive in time")
        }
        BufferError::Broken if client.framing.body_is_malformed() => {
            Blocked::new(BlockReason::Framing, "the chunks of the request body are malformed")
        }
        BufferError::Broken => Blocked::new(BlockReason::Framing, "the body of the request ended early"),
    }
}
