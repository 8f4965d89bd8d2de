//! An origin that gives back the credential it was sent: in a header, a cookie, a redirect, a body.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress};
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, SET_COOKIE,
};
use hyper::{Response, StatusCode};
use tokio::sync::watch;

use super::lock::credential;
use super::routes::{Body, full, not_found, text};

/// The credential lies between so much text on either side, so that a compressed body has it beyond
/// the first block.
const PADDING: usize = 200 * 1024;

/// Answers `/mirror/WHAT/…`; `gate` opens when the test says so.
pub(super) fn answer(
    what: &str,
    headers: &HeaderMap,
    gate: impl Fn(&str) -> watch::Receiver<bool>,
) -> Response<Body> {
    let Some(credential) = credential(headers) else {
        return text("no credential\n");
    };
    let (what, argument) = what.split_once('/').unwrap_or((what, ""));
    match what {
        "header" => with_header(HeaderName::from_static("x-echo"), &credential),
        "cookie" => with_header(SET_COOKIE, &format!("session={credential}; Path=/; Secure")),
        "redirect" => redirect(argument, &credential),
        "error" => error(&credential),
        "body" => body(argument, &credential),
        "bomb" => bomb(&credential),
        "sse" => events(&credential, gate(argument)),
        _ => not_found(),
    }
}

fn with_header(name: HeaderName, value: &str) -> Response<Body> {
    let mut response = text("see the head\n");
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// To `https://HOST/PATH?token=CREDENTIAL`.
fn redirect(to: &str, credential: &str) -> Response<Body> {
    let mut response = with_header(LOCATION, &format!("https://{to}?token={credential}"));
    *response.status_mut() = StatusCode::FOUND;
    response
}

fn error(credential: &str) -> Response<Body> {
    let mut response = text(&format!("{{\"error\": \"bad token {credential}\"}}\n"));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

/// The credential as it is and within Base64, deep in a body with the content encoding `encoding`.
fn body(encoding: &str, credential: &str) -> Response<Body> {
    let padding: String = ('a'..='z').cycle().take(PADDING).collect();
    let pair = STANDARD.encode(format!("user:{credential}"));
    let plain = format!("{padding}\n{credential}\n{pair}\n{padding}\n");
    let encoded = match encoding {
        "gzip" => gzip(plain.as_bytes()),
        "br" => brotli(plain.as_bytes()),
        "zstd" => zstd(plain.as_bytes()),
        _ => plain.into_bytes(),
    };
    let mut response = Response::new(full(encoded));
    if let (false, Ok(value)) = (encoding.is_empty(), HeaderValue::try_from(encoding)) {
        response.headers_mut().insert(CONTENT_ENCODING, value);
    }
    response
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

/// A mebibyte on the wire that unpacks to a gibibyte of zeros, and the credential behind them.
fn bomb(credential: &str) -> Response<Body> {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 1024;
    let mut compress = Compress::new(Compression::best(), false);
    let zeros = vec![0; PIECE];
    // Ends at a byte, and refers to nothing before itself: so it can be had as often as one likes.
    let mut packed = Vec::with_capacity(PIECE);
    compress.compress_vec(&zeros, &mut packed, FlushCompress::Full).expect("memory");
    let end = gzip(credential.as_bytes());
    let Some((head, tail)) = end.split_first_chunk::<10>() else {
        return not_found();
    };
    let mut checksum = Crc::new();
    let mut piece = Crc::new();
    piece.update(&zeros);
    for _ in 0..PIECES {
        checksum.combine(&piece);
    }
    let mut last = Crc::new();
    last.update(credential.as_bytes());
    checksum.combine(&last);
    let packed_end = tail.split_last_chunk::<8>().map_or(tail, |(deflated, _)| deflated);
    let body = [
        head.as_slice(),
        &packed.repeat(PIECES),
        packed_end,
        &checksum.sum().to_le_bytes(),
        &checksum.amount().to_le_bytes(),
    ]
    .concat();
    let mut response = Response::new(full(body));
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response
}

fn brotli(plain: &[u8]) -> Vec<u8> {
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 20);
    encoder.write_all(plain).expect("memory");
    encoder.into_inner()
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    zstd_safe::compress(&mut encoded, plain, 3).expect("memory");
    encoded
}

/// One event with the credential at once, the second when the test says so.
fn events(credential: &str, mut gate: watch::Receiver<bool>) -> Response<Body> {
    let event = Bytes::from(format!("data: {credential}\n\n"));
    let second = stream::once(async move {
        let _ = gate.wait_for(|open| *open).await;
        Ok(Frame::data(Bytes::from_static(b"data: second\n\n")))
    });
    let frames = stream::iter([Ok(Frame::data(event))]).chain(second);
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}
