//! Fuzz target: arbitrary bytes on an HTTP/1 connection. See `fuzzing`.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fuzz_input::{Input, pieces};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::{Builder, Runtime};

use super::framing::{Framed, Framing, HeadLimits, Note};

const LIMITS: HeadLimits = HeadLimits { bytes: 1024, headers: 16, time: Duration::from_hours(1) };

/// The reader has a deadline, which needs a clock.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.unwrap_or_else(|error| panic!("{error}"))
});

/// The first bytes choose how the others are split.
///
/// # Panics
///
/// If the split changes the forwarded bytes, or if bytes are forwarded that were not sent.
pub fn request_head(data: &[u8]) {
    let mut input = Input::new(data);
    let sizes = input.sizes();
    let bytes = input.rest();
    let whole = through(vec![bytes]);
    assert_eq!(through(pieces(bytes, &sizes)), whole, "the split changes the forwarded bytes");
    let (passed, end) = whole;
    if end != End::Refused {
        // Empty lines before a head are dropped, and some characters of a query are
        // percent-encoded.
        let squeezed = |bytes: &[u8]| -> String {
            let text: String = bytes.iter().copied().map(char::from).collect();
            let text = text.replace("%22", "\"").replace("%3C", "<").replace("%3E", ">");
            text.replace(['\r', '\n'], "")
        };
        assert!(squeezed(bytes).starts_with(&squeezed(&passed)), "something passes that was not sent");
    }
}

/// A stream that yields its bytes in pieces, with pauses between them.
struct Pieces<'a> {
    left: std::vec::IntoIter<&'a [u8]>,
    piece: &'a [u8],
    paused: bool,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.piece.is_empty() {
            this.piece = this.left.next().unwrap_or_default();
            this.paused = !this.paused;
            if this.paused && this.left.len() > 0 {
                return Poll::Pending;
            }
        }
        let (taken, rest) = this.piece.split_at_checked(buffer.remaining()).unwrap_or((this.piece, &[]));
        buffer.put_slice(taken);
        this.piece = rest;
        Poll::Ready(Ok(()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Good,
    Refused,
    Failed,
}

/// The bytes that hyper would get, and how the connection ends.
fn through(mut pieces: Vec<&[u8]>) -> (Vec<u8>, End) {
    let _entered = RUNTIME.enter();
    // An empty piece would be the end of the stream.
    pieces.retain(|piece| !piece.is_empty());
    let framing = Arc::new(Framing::default());
    let stream = Pieces { left: pieces.into_iter(), piece: &[], paused: false };
    let mut framed = Framed::new(stream, LIMITS, Arc::clone(&framing));
    let mut context = Context::from_waker(Waker::noop());
    let mut got = Vec::new();
    loop {
        let mut space = [0; 61];
        let mut buffer = ReadBuf::new(&mut space);
        match Pin::new(&mut framed).poll_read(&mut context, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => return (got, End::Good),
            Poll::Ready(Ok(())) => got.extend_from_slice(buffer.filled()),
            Poll::Ready(Err(_)) => return (got, End::Failed),
            Poll::Pending => {
                let mut notes = (1..=got.len() as u64 + 1).filter_map(|head| framing.take_note(head));
                let refused = notes.any(|note| matches!(note, Note::Refused(_)));
                if refused {
                    return (got, End::Refused);
                }
            }
        }
    }
}
