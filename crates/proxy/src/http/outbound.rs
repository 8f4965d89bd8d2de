//! Turns a permitted request into the one that is sent: inserts credentials, and prepares the body
//! for its signature.
//!
//! None of the body is read before the plan for the head is complete: a client that is waiting for
//! `100 Continue` gets the refusal instead.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::SystemTime;

use allowlist::{Pushes, Reason};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use sandbox_proxy_protocol::BlockReason;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::client::Client;
use super::cost::counts_tokens;
use super::deny::Unsent;
use super::exchange::Exchange;
use super::outgoing::Outgoing;
use crate::credential::{BodyPlan, CredentialError, Plan, Wire, hide};
use crate::git;
use crate::headers::{RequestRules, overrides_method, overrides_path, request_headers};
use crate::policy::{Blocked, Permit};
use crate::scrub::Needles;
use crate::signing::{ChunkError, ChunkSigner, Pending};
use crate::upload::{
    BufferError, Buffered, CHUNK_ROOM, Content, DrainedBody, RequestBody, Upload, UploadErrorSlot, buffer,
    room,
};

/// A request that is ready to be sent.
pub(super) struct Prepared {
    pub(super) outgoing: Outgoing,
    pub(super) upload: Upload,
    /// Values that the response must not contain.
    pub(super) needles: Option<Arc<Needles>>,
    /// Why the body was aborted while it was sent, if it was.
    pub(super) error: UploadErrorSlot,
    /// Closes once it is known whether the body may be sent to its end; `None` where nothing has to
    /// be proven.
    pub(super) proven: Option<oneshot::Receiver<Infallible>>,
}

/// Why a request is not sent.
#[derive(Debug)]
pub(super) enum Unprepared {
    /// It is refused, as if by the gate.
    Refused(Blocked),
    /// Its credentials could not be inserted.
    Failed(Unsent),
}

/// The change that the body of a request needs, with the room that it takes.
enum BodyChange {
    Pass,
    Hash(Box<Pending>),
    Sign(Box<ChunkSigner>, OwnedSemaphorePermit),
    Prove(Box<git::Proof>, OwnedSemaphorePermit),
}

/// The headers to forward of the request that `permit` is for, before its credentials are inserted.
/// `websocket` is whether the request opens a WebSocket.
///
/// # Errors
///
/// If the request asks to drop a header that must be forwarded.
pub(super) fn headers_to_forward(
    client: &Client,
    permit: &Permit,
    parts: &Parts,
    body: &Content,
    websocket: bool,
) -> Result<HeaderMap, Blocked> {
    let rules = RequestRules {
        strip_method_override: permit.method_counts(),
        strip_path_override: permit.path_counts(),
        websocket,
    };
    let mut headers = request_headers(&parts.headers, rules).ok_or_else(|| {
        Blocked::new(
            BlockReason::Framing,
            "the Connection header names a header that must not be dropped: leave it out",
        )
    })?;
    if let Some(length) = body.replaced_length() {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if counts_tokens(client, permit) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    if permit.method_counts() && overrides_method(&parts.headers) {
        client.warn(format!(
            "removed a header that would override the method {} of a request to {}",
            parts.method,
            permit.host()
        ));
    }
    if permit.path_counts() && overrides_path(&parts.headers) {
        client
            .warn(format!("removed a header that would override the path of a request to {}", permit.host()));
    }
    Ok(headers)
}

/// Inserts credentials into the request that `permit` is for; `headers` are those to forward.
pub(super) async fn prepare(
    client: &Client,
    permit: &Permit,
    parts: Parts,
    headers: HeaderMap,
    body: RequestBody,
    exchange: &mut Exchange,
) -> Result<Prepared, Unprepared> {
    let RequestBody { content: body, pushes } = body;
    let drained = DrainedBody::for_request(&parts.headers);
    // Before any of the body is polled: a client that waits for `100 Continue` gets the refusal
    // instead.
    let planned = match plan(client, permit, &parts, headers) {
        Ok(mut plan) => {
            let replaced = body.replaced_length().is_some();
            let change = body_change(client, &mut plan, pushes, replaced).await;
            change.map(|change| (plan, change))
        }
        Err(unprepared) => Err(unprepared),
    };
    let (mut plan, change) = match planned {
        Ok(planned) => planned,
        Err(unprepared) => {
            body.drain(drained);
            return Err(unprepared);
        }
    };
    let error = UploadErrorSlot::default();
    let counter = exchange.upload_counter(&error);
    let no_trailers = std::mem::take(&mut plan.no_trailers);
    let mut proven = None;
    let upload = match change {
        BodyChange::Pass => Upload::new(body, counter, no_trailers),
        BodyChange::Sign(signer, room) => Upload::new(body, counter, no_trailers).signed(signer, room),
        BodyChange::Prove(proof, room) => {
            let (upload, decided) = Upload::new(body, counter, no_trailers).proving(proof, room);
            proven = Some(decided);
            upload
        }
        BodyChange::Hash(pending) => {
            let body = whole(client, body, drained).await?;
            let mut signed = pending.finish(body.sha256()).map_err(|error| unsigned(&error.into()))?;
            hide(&mut signed.headers);
            plan.headers = signed.headers;
            plan.target = Some(signed.target);
            Upload::buffered(body, counter, no_trailers)
        }
    };
    exchange.planned(&plan, &client.shared.log);
    let service = client.service(permit.host()).map_err(Unprepared::Refused)?.map(Arc::as_ref);
    let outgoing =
        Outgoing::new(permit, parts, plan.headers, plan.target.as_deref(), service).ok_or_else(unsendable)?;
    Ok(Prepared { outgoing, upload, needles: plan.scrub, error, proven })
}

/// The change that the body needs, as soon as there is room for it. Only the body that was judged
/// may be signed: a body with `pushes` to prove is not signed at all, and one that was `replaced`
/// is not signed chunk by chunk.
async fn body_change(
    client: &Client,
    plan: &mut Plan,
    pushes: Option<Box<Pushes>>,
    replaced: bool,
) -> Result<BodyChange, Unprepared> {
    let room_for = async |bytes| {
        room(bytes, &client.shared.signing_room).await.map_err(|error| unbuffered(client, error))
    };
    match (std::mem::replace(&mut plan.body, BodyPlan::Pass), pushes) {
        (BodyPlan::Pass, None) => Ok(BodyChange::Pass),
        (BodyPlan::Pass, Some(pushes)) => {
            let room = room_for(git::ROOM).await?;
            let proof = git::Proof::new(*pushes).ok_or_else(unsignable)?;
            Ok(BodyChange::Prove(Box::new(proof), room))
        }
        (BodyPlan::Hash(pending), None) => Ok(BodyChange::Hash(pending)),
        (BodyPlan::Chunks(signer), None) if !replaced => {
            Ok(BodyChange::Sign(signer, room_for(CHUNK_ROOM).await?))
        }
        (BodyPlan::Hash(_) | BodyPlan::Chunks(_), _) => Err(unsignable()),
    }
}

/// Reads all of a body whose hash is to be signed.
async fn whole(client: &Client, body: Content, drained: DrainedBody) -> Result<Box<Buffered>, Unprepared> {
    match body {
        Content::Unread(body) => {
            let body = buffer(body, &client.shared.signing_room, drained).await;
            Ok(Box::new(body.map_err(|error| unbuffered(client, error))?))
        }
        Content::Whole(body) => Ok(body),
        Content::Begun(..) => {
            body.drain(drained);
            Err(unsignable())
        }
    }
}

fn plan(client: &Client, permit: &Permit, parts: &Parts, headers: HeaderMap) -> Result<Plan, Unprepared> {
    let target = permit.request().target().as_received();
    let wire = Wire {
        scheme: client.scheme,
        host: permit.host(),
        method: parts.method.as_str(),
        target: std::str::from_utf8(target).map_err(|_| unsendable())?,
        headers,
        now: SystemTime::now(),
    };
    let vault = Arc::clone(&client.shared.context.policy.borrow().vault);
    let mut plan = vault.plan(wire).map_err(|error| unsigned(&error))?;
    #[cfg(feature = "forced-panic")]
    crate::forced_panic::if_asked(&plan.headers);
    for warning in std::mem::take(&mut plan.warnings) {
        client.warn(warning);
    }
    Ok(plan)
}

fn unsendable() -> Unprepared {
    Unprepared::Refused(Blocked::new(Reason::Path, "the path cannot be sent as it is: percent-encode it"))
}

/// The body of the request was judged, and could not be signed in the form that was judged.
fn unsignable() -> Unprepared {
    Unprepared::Refused(Blocked::new(
        Reason::Body,
        "whether this is allowed depends on the request's body, which cannot be signed as it is: send it without a signing \
         credential",
    ))
}

/// The request cannot carry its credentials.
fn unsigned(error: &CredentialError) -> Unprepared {
    let (reason, what) = match error {
        CredentialError::Value { .. } => ("credential", "Credential"),
        CredentialError::Sign(_) => ("sign", "Sign"),
    };
    Unprepared::Failed(Unsent {
        status: StatusCode::BAD_GATEWAY,
        reason,
        message: format!("the request was not sent because its credentials could not be inserted: {error}"),
        record: format!("{what}: {error}"),
    })
}

fn unbuffered(client: &Client, error: BufferError) -> Unprepared {
    match error {
        BufferError::TooLarge => too_large(
            "a body whose hash the signature needs may have 16 MiB at most: send its hash in x-amz-content-sha256",
        ),
        BufferError::Full => Unprepared::Refused(Blocked::new(
            BlockReason::Limit,
            "too many bodies are being signed or checked: try again later",
        )),
        BufferError::Stalled => Unprepared::Refused(Blocked::new(
            BlockReason::Timeout,
            "the body of the request did not arrive in time",
        )),
        BufferError::Broken if client.framing.body_is_malformed() => malformed(),
        BufferError::Broken => {
            Unprepared::Refused(Blocked::new(BlockReason::Framing, "the body of the request ended early"))
        }
    }
}

/// The response to a client whose body could not be signed while it was sent.
pub(super) fn unchunked(error: &ChunkError) -> Unprepared {
    match error {
        ChunkError::TooLarge => {
            too_large("a chunk of a signed body may have 1 MiB at most: make the client's chunks smaller")
        }
        ChunkError::Malformed(_) | ChunkError::Truncated | ChunkError::DataAfterEnd => malformed(),
        ChunkError::SignatureWidth => Unprepared::Failed(Unsent {
            status: StatusCode::BAD_GATEWAY,
            reason: "sign",
            message: format!("the body could not be signed: {error}"),
            record: format!("Sign: {error}"),
        }),
    }
}

fn too_large(hint: &str) -> Unprepared {
    Unprepared::Failed(Unsent {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        reason: "body_too_large",
        message: hint.to_owned(),
        record: format!("Sign: {hint}"),
    })
}

pub(super) fn malformed() -> Unprepared {
    Unprepared::Refused(Blocked::new(BlockReason::Framing, "the chunks of the request body are malformed"))
}
