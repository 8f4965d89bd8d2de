//! Bounds how many interim responses (1xx) an HTTP/2 upstream may send.
//!
//! h2 keeps each of them until it is fetched, which hyper never does, and no window covers heads:
//! without a bound an upstream could fill the memory. HTTP/1 does not need a bound, since hyper
//! drops interim responses as it reads them.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frames::{DATA, END_STREAM, FrameHead, Frames, HEADERS, RST_STREAM};

/// Maximum heads of one stream: interim responses, the response itself, trailers.
const HEADS: u8 = 32;
/// Maximum streams to follow. Beyond it all are forgotten: streams that we gave up are never seen
/// to end.
const STREAMS: usize = 1024;

/// A connection to an upstream that fails when the upstream sends too many heads.
pub(super) struct Guarded<S> {
    stream: S,
    heads: Heads,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, heads: Heads::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let fresh = buffer.filled().get(start..).unwrap_or_default();
        Poll::Ready(self.heads.follow(fresh).map_err(io::Error::other))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The upstream sent more heads on one stream than any response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many interim responses")]
struct Flood;

/// Counts the heads of each stream that has not ended.
#[derive(Debug, Default)]
struct Heads {
    frames: Frames,
    counts: HashMap<u32, u8>,
}

impl Heads {
    fn follow(&mut self, bytes: &[u8]) -> Result<(), Flood> {
        let counts = &mut self.counts;
        self.frames.follow(bytes, |frame| count(counts, frame))
    }
}

fn count(counts: &mut HashMap<u32, u8>, frame: FrameHead) -> Result<(), Flood> {
    match frame.kind {
        RST_STREAM => drop(counts.remove(&frame.stream)),
        DATA | HEADERS if frame.flags & END_STREAM != 0 => drop(counts.remove(&frame.stream)),
        HEADERS => {
            if counts.len() >= STREAMS {
                counts.clear();
            }
            let heads = counts.entry(frame.stream).or_default();
            *heads += 1;
            if *heads > HEADS {
                return Err(Flood);
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Empty;
    use hyper::client::conn::http2;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
    }

    #[test]
    fn heads_are_counted_for_each_stream_until_it_ends() {
        let head = |stream| frame(HEADERS, 4, stream, b"abc");
        let most = usize::from(HEADS);
        let cases = [
            (head(1).repeat(most), Ok(())),
            (head(1).repeat(most + 1), Err(Flood)),
            ([head(1).repeat(most), head(3)].concat(), Ok(())),
            ([head(1).repeat(most), frame(DATA, END_STREAM, 1, b""), head(1)].concat(), Ok(())),
            ([head(1).repeat(most), frame(RST_STREAM, 0, 1, b"0000"), head(1)].concat(), Ok(())),
            ([head(1).repeat(most), frame(DATA, 0, 1, &head(1).repeat(2)), head(1)].concat(), Err(Flood)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Heads::default().follow(&bytes), expected);
            let mut split = Heads::default();
            let each = bytes.chunks(1).try_for_each(|byte| split.follow(byte));
            assert_eq!(each, expected);
        }
    }

    #[tokio::test]
    async fn upstream_that_sends_endless_interim_responses_is_cut_off() {
        let (client, mut upstream) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            upstream.write_all(&frame(4, 0, 0, b"")).await.unwrap();
            // `:status: 103`, again and again, on the client's first stream.
            let interim = frame(HEADERS, 4, 1, b"\x08\x03103");
            while upstream.write_all(&interim).await.is_ok() {}
        });
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(Guarded::new(client))).await.unwrap();
        let driven = tokio::spawn(connection);
        let request = Request::get("https://a.example/").body(Empty::<Bytes>::new()).unwrap();
        assert!(sender.send_request(request).await.is_err());
        assert!(driven.await.unwrap().is_err());
    }
}
