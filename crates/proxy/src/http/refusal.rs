//! Responses in place of the upstream's, and their records.

use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};
use sandbox_proxy_protocol::BlockReason;

use super::body::Download;
use super::client::Client;
use super::deny;
use super::exchange::{Asked, Exchange};
use super::outbound::Unprepared;
use crate::policy::Blocked;

pub(super) fn too_busy(what: &str) -> Blocked {
    Blocked::new(BlockReason::Limit, format!("{what}: try again later"))
}

/// Refuses a request for which there is no room, without keeping any of it: its record is written
/// at once, and over HTTP/2, where thousands more may follow, only the headers give the reason. If
/// the queue is full there is no record, since nothing was done that would need one.
pub(super) fn turn_away(client: &Client, asked: Asked, http2: bool, what: &str) -> Response<Download> {
    let denial = too_busy(what);
    let page = deny::blocked(asked.audience(), &denial);
    if let Ok(slot) = client.shared.context.recorder.try_reserve() {
        let mut exchange = Exchange::begin(asked, slot, None, client.begin());
        exchange.blocked(&denial);
        exchange.answered(page.status());
    }
    let mut response = page.map(|page| Download::page(page, None));
    if http2 {
        *response.body_mut() = Download::page(bytes::Bytes::new(), None);
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(0));
    }
    response
}

pub(super) fn refuse(denial: &Blocked, mut exchange: Exchange) -> Response<Download> {
    exchange.blocked(denial);
    let page = deny::blocked(exchange.audience(), denial);
    answer_with(page, exchange)
}

/// Ends an exchange with a response of our own.
pub(super) fn answer_with(page: Response<bytes::Bytes>, mut exchange: Exchange) -> Response<Download> {
    exchange.answered(page.status());
    page.map(|page| Download::page(page, Some(exchange)))
}

/// The response when the request was not sent, or the upstream's response cannot be forwarded.
pub(super) fn give_up(unprepared: Unprepared, mut exchange: Exchange) -> Response<Download> {
    match unprepared {
        Unprepared::Refused(denial) => refuse(&denial, exchange),
        Unprepared::Failed(unsent) => {
            let page = deny::unsent(exchange.audience(), &unsent);
            exchange.failed(unsent.record);
            answer_with(page, exchange)
        }
    }
}
