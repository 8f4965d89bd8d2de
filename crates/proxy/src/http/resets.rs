//! Detects HTTP/2 requests that h2 resets itself, before the service is called for them.
//!
//! h2 does not hand on a request that it cannot read: duplicate pseudo-headers, upper-case names,
//! `"` in a query. It reports this only to the client, so the frames are watched: a stream that is
//! reset before it is answered, and for which the service was never called, is a refused request.
//! Its contents are not known. The client is asked to try HTTP/1.1, where the query is forwarded
//! unchanged and every refusal has its reason; of the clients known to us, curl does.

use std::collections::HashSet;
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frames::{Frames, HEADERS, RST_STREAM};

/// Bytes that a client sends before its first frame.
const PREFACE: usize = 24;
/// Maximum streams to follow: more than h2 allows to be open at once.
const STREAMS: usize = 1024;
/// Bytes of a frame that resets a stream.
const RESET: usize = 13;
/// Error codes of RFC 9113.
const PROTOCOL_ERROR: [u8; 4] = [0, 0, 0, 1];
const HTTP_1_1_REQUIRED: [u8; 4] = [0, 0, 0, 13];

/// Is notified of requests that nothing else sees.
pub(super) trait Unseen {
    /// The number of requests that the service was called for.
    fn seen(&self) -> u64;
    /// One more request was refused without it.
    fn refused(&self);
}

/// A connection to an HTTP/2 client.
pub(super) struct Resets<S, U> {
    stream: S,
    unseen: U,
    incoming: Frames,
    outgoing: Frames,
    /// Streams that were opened and are not answered yet.
    open: HashSet<u32>,
    /// The latest stream that was opened.
    latest: u32,
    /// The number of streams that were opened, and of those that were refused unseen.
    opened: u64,
    refused: u64,
    /// A frame that replaces one of h2's, and how much of it was sent.
    reset: [u8; RESET],
    sent: usize,
}

impl<S, U: Unseen> Resets<S, U> {
    pub(super) fn new(stream: S, unseen: U) -> Self {
        Self {
            stream,
            unseen,
            incoming: Frames::behind(PREFACE),
            outgoing: Frames::default(),
            open: HashSet::new(),
            latest: 0,
            opened: 0,
            refused: 0,
            reset: [0; RESET],
            sent: RESET,
        }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn inner(&self) -> &S {
        &self.stream
    }

    fn received(&mut self, bytes: &[u8]) {
        let (open, latest, opened) = (&mut self.open, &mut self.latest, &mut self.opened);
        let Ok(()) = self.incoming.follow(bytes, |frame| {
            if frame.kind == HEADERS && frame.stream > *latest {
                *latest = frame.stream;
                *opened += 1;
                if open.len() >= STREAMS {
                    open.clear();
                }
                open.insert(frame.stream);
            }
            Ok::<(), Infallible>(())
        });
    }

    fn wrote(&mut self, bytes: &[u8]) {
        let open = &mut self.open;
        let Ok(()) = self.outgoing.follow(bytes, |frame| {
            if frame.kind == HEADERS {
                open.remove(&frame.stream);
            }
            Ok::<(), Infallible>(())
        });
    }

    /// The frame that `bytes` begin with, if it resets a stream.
    fn reset(&self, bytes: &[u8]) -> Option<[u8; RESET]> {
        let frame: [u8; RESET] = bytes.get(..RESET)?.try_into().ok()?;
        (self.outgoing.is_at_start() && frame.starts_with(&[0, 0, 4, RST_STREAM])).then_some(frame)
    }

    /// Inspects a frame that resets a stream. Returns the frame to send instead.
    fn judge(&mut self, mut frame: [u8; RESET]) -> [u8; RESET] {
        let [.., a, b, c, d, _, _, _, _] = frame;
        let stream = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
        let was_open = self.open.remove(&stream);
        if !was_open || self.opened <= self.unseen.seen() + self.refused {
            return frame;
        }
        self.refused += 1;
        self.unseen.refused();
        if let Some(code) = frame.last_chunk_mut::<4>()
            && *code == PROTOCOL_ERROR
        {
            *code = HTTP_1_1_REQUIRED;
        }
        frame
    }
}

impl<S: AsyncWrite + Unpin, U: Unseen> Resets<S, U> {
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < RESET {
            let rest = self.reset.get(self.sent..).unwrap_or_default();
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin, U: Unseen + Unpin> AsyncRead for Resets<S, U> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        this.received(buffer.filled().get(start..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, U: Unseen + Unpin> AsyncWrite for Resets<S, U> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_reset(cx))?;
        if let Some(frame) = this.reset(bytes) {
            this.reset = this.judge(frame);
            this.sent = 0;
            return Poll::Ready(Ok(RESET));
        }
        let until = this.outgoing.before(RST_STREAM, bytes);
        let bytes = bytes.get(..until).unwrap_or(bytes);
        let wrote = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.wrote(bytes.get(..wrote).unwrap_or_default());
        Poll::Ready(Ok(wrote))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_reset(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_reset(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.as_mut().get_mut();
        ready!(this.poll_reset(cx))?;
        let mut at = this.outgoing.clone();
        let has_reset = pieces.iter().any(|piece| {
            let mut found = false;
            let Ok(()) = at.follow(piece, |frame| {
                found |= frame.kind == RST_STREAM;
                Ok::<(), Infallible>(())
            });
            found
        });
        if has_reset {
            let first = pieces.iter().find(|piece| !piece.is_empty());
            return self.poll_write(cx, first.map_or(&[], |piece| piece));
        }
        let wrote = ready!(Pin::new(&mut this.stream).poll_write_vectored(cx, pieces))?;
        let mut left = wrote;
        for piece in pieces {
            let taken = left.min(piece.len());
            this.wrote(piece.get(..taken).unwrap_or_default());
            left -= taken;
        }
        Poll::Ready(Ok(wrote))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::fuzzed_frames::Counts;
    use super::*;

    fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, 4, 0, 0, 0, stream], payload].concat()
    }

    /// Opens streams 1 and 3, of which the service sees the first, and then writes `wrote` in
    /// pieces of `size`. Returns the bytes that are sent, and the number of requests refused
    /// unseen.
    async fn sent(wrote: &[u8], size: usize) -> (Vec<u8>, u64) {
        let (near, mut far) = tokio::io::duplex(7);
        let counts = Arc::new(Counts::default());
        let asked = [vec![b'x'; PREFACE], frame(HEADERS, 1, b"ab"), frame(HEADERS, 3, b"c")].concat();
        let reading = tokio::spawn(async move {
            far.write_all(&asked).await.unwrap();
            let mut read = Vec::new();
            far.read_to_end(&mut read).await.unwrap();
            read
        });
        let mut stream = Resets::new(near, Arc::clone(&counts));
        let mut space = [0; PREFACE + 11 + 10];
        stream.read_exact(&mut space).await.unwrap();
        counts.seen.store(1, Ordering::SeqCst);
        for piece in wrote.chunks(size) {
            let mut rest = piece;
            while !rest.is_empty() {
                let wrote = stream.write(rest).await.unwrap();
                rest = &rest[wrote..];
            }
        }
        stream.shutdown().await.unwrap();
        drop(stream);
        (reading.await.unwrap(), counts.refused.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn stream_reset_unseen_is_reported_and_sent_to_http1() {
        let answer = frame(HEADERS, 1, b"ok");
        let reset = |stream, code: &[u8]| frame(RST_STREAM, stream, code);
        let other = [0, 0, 0, 8];
        for (wrote, expected, refused) in [
            (
                [&answer[..], &reset(3, &PROTOCOL_ERROR)].concat(),
                [&answer[..], &reset(3, &HTTP_1_1_REQUIRED)].concat(),
                1,
            ),
            ([&reset(3, &other)[..], &answer].concat(), [&reset(3, &other)[..], &answer].concat(), 1),
            // It was answered, or was never opened, or was refused already.
            (
                [&answer[..], &reset(1, &PROTOCOL_ERROR)].concat(),
                [&answer[..], &reset(1, &PROTOCOL_ERROR)].concat(),
                0,
            ),
            (reset(5, &PROTOCOL_ERROR), reset(5, &PROTOCOL_ERROR), 0),
            (
                [reset(3, &PROTOCOL_ERROR), reset(3, &PROTOCOL_ERROR)].concat(),
                [reset(3, &HTTP_1_1_REQUIRED), reset(3, &PROTOCOL_ERROR)].concat(),
                1,
            ),
        ] {
            assert_eq!(sent(&wrote, 100).await, (expected, refused));
        }
    }

    #[tokio::test]
    async fn frames_in_any_pieces_pass_unchanged() {
        let frames = [frame(4, 0, b""), frame(HEADERS, 1, b"ok"), frame(0, 1, &[3; 60])].concat();
        for size in 1..frames.len() {
            assert_eq!(sent(&frames, size).await, (frames.clone(), 0), "{size}");
        }
    }
}
