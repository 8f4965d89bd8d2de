//! From a permitted request to what is sent: credentials are put in, and the body is made fit for its signature.
//!
//! Nothing of the body is read before the head's plan is complete: a client that waits for a go-ahead gets the refusal instead.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::SystemTime;

use allowlist::{Pushes, Reason};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use sandbox_proxy_protocol::BlockReason;
use tokio::sync::oneshot;

use super::client::Client;
use super::deny::Unsent;
use super::exchange::Exchange;
use super::outgoing::Outgoing;
use crate::credential::{BodyPlan, CredentialError, Plan, Wire, hide};
use crate::git;
use crate::policy::{Blocked, Permit};
use crate::scrub::Needles;
use crate::signing::ChunkError;
use crate::upload::{
    BufferFault, Buffered, CHUNK_ROOM, ChunkSigning, Content, Proving, RequestBody, Unwanted, Upload,
    UploadFault, buffer, room,
};

/// A request that is ready to be sent.
pub(super) struct Prepared {
    pub(super) outgoing: Outgoing,
    pub(super) upload: Upload,
    /// What the answer must not bring back.
    pub(super) needles: Option<Arc<Needles>>,
    /// Why the body was broken off while it was sent.
    pub(super) fault: UploadFault,
    /// Ends when it is known whether the body may be sent to its end, where that is a question.
    pub(super) proven: Option<oneshot::Receiver<Infallible>>,
}

/// Why a request is not sent.
#[derive(Debug)]
pub(super) enum Unprepared {
    /// It is refused like by the gate.
    Refused(Blocked),
    /// Its credentials could not be put in.
    Failed(Unsent),
}

/// Puts credentials into the request that `permit` is for, whose `headers` are those that travel.
pub(super) async fn prepare(
    client: &Client,
    permit: &Permit,
    parts: Parts,
    headers: HeaderMap,
    body: RequestBody,
    exchange: &mut Exchange,
) -> Result<Prepared, Unprepared> {
    let RequestBody { content: body, pushes } = body;
    let unwanted = Unwanted::of(&parts.headers);
    let mut plan = match plan(client, permit, &parts, headers) {
        Ok(plan) => plan,
        Err(unprepared) => {
            body.leave(unwanted);
            return Err(unprepared);
        }
    };
    #[cfg(feature = "forced-panic")]
    crate::forced_panic::if_asked(&plan.headers);
    for warning in std::mem::take(&mut plan.warnings) {
        client.warn(warning);
    }
    let fault = UploadFault::default();
    let counter = exchange.upload_counter(&fault);
    let mut proven = None;
    let no_trailers = std::mem::take(&mut plan.no_trailers);
    let upload = match std::mem::replace(&mut plan.body, BodyPlan::Pass) {
        BodyPlan::Pass => match pushes {
            None => Upload::new(body, counter, no_trailers),
            Some(pushes) => {
                let (proving, decided) = match prove(client, *pushes, &fault).await {
                    Ok(proving) => proving,
                    Err(unprepared) => {
                        body.leave(unwanted);
                        return Err(unprepared);
                    }
                };
                proven = Some(decided);
                Upload::new(body, counter, no_trailers).proving(proving)
            }
        },
        _ if pushes.is_some() => {
            body.leave(unwanted);
            return Err(unsignable());
        }
        BodyPlan::Hash(pending) => {
            let body = whole(client, body, unwanted).await?;
            let mut signed = pending.finish(body.sha256()).map_err(|error| unsigned(&error.into()))?;
            hide(&mut signed.headers);
            plan.headers = signed.headers;
            plan.target = Some(signed.target);
            Upload::buffered(body, counter, no_trailers)
        }
        BodyPlan::Chunks(_) if body.replaced_length().is_some() => return Err(unsignable()),
        BodyPlan::Chunks(signer) => match room(CHUNK_ROOM, &client.shared.signing_room).await {
            Ok(room) => Upload::new(body, counter, no_trailers).signed(ChunkSigning::new(
                *signer,
                Arc::clone(&fault),
                room,
            )),
            Err(fault) => {
                body.leave(unwanted);
                return Err(unbuffered(client, fault));
            }
        },
    };
    exchange.planned(&plan);
    let service = client.service(permit.host()).map_err(Unprepared::Refused)?.map(Arc::as_ref);
    let outgoing =
        Outgoing::new(permit, parts, plan.headers, plan.target.as_deref(), service).ok_or_else(unsendable)?;
    Ok(Prepared { outgoing, upload, needles: plan.scrub, fault, proven })
}

/// All of a body whose hash is to be signed.
async fn whole(client: &Client, body: Content, unwanted: Unwanted) -> Result<Box<Buffered>, Unprepared> {
    match body {
        Content::Unread(body) => {
            let body = buffer(body, &client.shared.signing_room, unwanted).await;
            Ok(Box::new(body.map_err(|fault| unbuffered(client, fault))?))
        }
        Content::Whole(body) => Ok(body),
        Content::Begun(..) => {
            body.leave(unwanted);
            Err(unsignable())
        }
    }
}

/// What holds the end of a push back until it is known to lose nothing.
async fn prove(
    client: &Client,
    pushes: Pushes,
    fault: &UploadFault,
) -> Result<(Proving, oneshot::Receiver<Infallible>), Unprepared> {
    let room =
        room(git::ROOM, &client.shared.signing_room).await.map_err(|fault| unbuffered(client, fault))?;
    let proof = git::Proof::new(pushes).ok_or_else(unsignable)?;
    Ok(Proving::new(proof, Arc::clone(fault), room))
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
    vault.plan(wire).map_err(|error| unsigned(&error))
}

fn unsendable() -> Unprepared {
    Unprepared::Refused(Blocked::new(Reason::Path, "the path cannot be sent as it is: percent-encode it"))
}

/// The body of the request was judged, and could not be signed as what was judged.
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
        message: format!("the request was not sent, since its credentials could not be put in: {error}"),
        record: format!("{what}: {error}"),
    })
}

fn unbuffered(client: &Client, fault: BufferFault) -> Unprepared {
    match fault {
        BufferFault::TooLarge => too_large(
            "a body whose hash the signature needs may have 16 MiB at most: send its hash in x-amz-content-sha256",
        ),
        BufferFault::Full => Unprepared::Refused(Blocked::new(
            BlockReason::Limit,
            "too many bodies are being signed or checked: try again later",
        )),
        BufferFault::Stalled => Unprepared::Refused(Blocked::new(
            BlockReason::Timeout,
            "the body of the request did not arrive in time",
        )),
        BufferFault::Broken if client.framing.body_is_malformed() => malformed(),
        BufferFault::Broken => {
            Unprepared::Refused(Blocked::new(BlockReason::Framing, "the body of the request broke off"))
        }
    }
}

/// The response to a client whose body could not be signed while it was sent.
pub(super) fn unchunked(fault: &ChunkError) -> Unprepared {
    match fault {
        ChunkError::TooLarge => {
            too_large("a chunk of a signed body may have 1 MiB at most: make the client's chunks smaller")
        }
        ChunkError::Malformed(_) | ChunkError::Truncated | ChunkError::DataAfterEnd => malformed(),
        ChunkError::SignatureWidth => Unprepared::Failed(Unsent {
            status: StatusCode::BAD_GATEWAY,
            reason: "sign",
            message: format!("the body could not be signed: {fault}"),
            record: format!("Sign: {fault}"),
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
