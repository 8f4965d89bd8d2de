//! Bodies that are generated while they are sent.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};

/// Any body, of a request or a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// A body of `length` zeros, in pieces, without a declared length.
pub(crate) fn streaming_body(length: usize) -> Body {
    let frames = stream::unfold(length, |left| async move {
        let taken = left.min(ZEROS.len());
        (taken > 0).then(|| (Ok(Frame::data(Bytes::from_static(&ZEROS).slice(..taken))), left - taken))
    });
    StreamBody::new(frames).boxed_unsync()
}
