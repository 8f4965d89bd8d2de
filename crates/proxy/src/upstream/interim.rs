//! Bounds how many interim answers (1xx) an HTTP/2 upstream may send.
//!
//! h2 keeps each of them until somebody asks for it, hyper never does, and no window covers heads: without a bound an upstream could
//! fill the memory. HTTP/1 needs none of this, since hyper drops interim answers as it reads them.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Heads of one stream at most: interim answers, the answer itself, trailers.
const HEADS: u8 = 32;
/// Streams that are followed at most. Beyond it all are forgotten: none of those that we gave up is seen to end.
const STREAMS: usize = 1024;
/// Bytes before the payload of a frame.
const FRAME_HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;

/// A connection to an upstream that fails when the upstream sends too many heads.
pub(super) struct Guarded<S> {
    stream: S,
    frames: Frames,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            frames: Frames::default(),
        }
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
        Poll::Ready(self.frames.follow(fresh).map_err(io::Error::other))
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

/// The upstream sent more heads on one stream than any answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many interim answers")]
struct Flood;

/// Follows the frames of one direction, in any split of their bytes.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; FRAME_HEAD],
    /// How much of `head` has come.
    come: usize,
    /// Bytes of a payload that are still to come.
    payload: usize,
    /// Heads so far, of each stream that has not ended.
    heads: HashMap<u32, u8>,
}

impl Frames {
    fn follow(&mut self, mut bytes: &[u8]) -> Result<(), Flood> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.payload > 0 {
                let taken = self.payload.min(bytes.len());
                self.payload -= taken;
                bytes = bytes.get(taken..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.head.get_mut(self.come) {
                *place = *first;
            }
            self.come += 1;
            bytes = rest;
            if self.come == FRAME_HEAD {
                self.come = 0;
                self.begin()?;
            }
        }
        Ok(())
    }

    /// The head of a frame is complete.
    fn begin(&mut self) -> Result<(), Flood> {
        let [high, middle, low, kind, flags, stream @ ..] = self.head;
        self.payload = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        match kind {
            RST_STREAM => drop(self.heads.remove(&stream)),
            DATA | HEADERS if flags & END_STREAM != 0 => drop(self.heads.remove(&stream)),
            HEADERS => {
                if self.heads.len() >= STREAMS {
                    self.heads.clear();
                }
                let heads = self.heads.entry(stream).or_default();
                *heads += 1;
                if *heads > HEADS {
                    return Err(Flood);
                }
            }
            _ => {}
        }
        Ok(())
    }
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
            (
                [head(1).repeat(most), frame(DATA, END_STREAM, 1, b""), head(1)].concat(),
                Ok(()),
            ),
            (
                [head(1).repeat(most), frame(RST_STREAM, 0, 1, b"0000"), head(1)].concat(),
                Ok(()),
            ),
            (
                [
                    head(1).repeat(most),
                    frame(DATA, 0, 1, &head(1).repeat(2)),
                    head(1),
                ]
                .concat(),
                Err(Flood),
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Frames::default().follow(&bytes), expected);
            let mut split = Frames::default();
            let each = bytes.chunks(1).try_for_each(|byte| split.follow(byte));
            assert_eq!(each, expected);
        }
    }

    #[tokio::test]
    async fn an_upstream_that_never_comes_to_the_point_is_cut_off() {
        let (client, mut upstream) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            upstream.write_all(&frame(4, 0, 0, b"")).await.unwrap();
            // `:status: 103`, again and again, on the client's first stream.
            let interim = frame(HEADERS, 4, 1, b"\x08\x03103");
            while upstream.write_all(&interim).await.is_ok() {}
        });
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(Guarded::new(client)))
                .await
                .unwrap();
        let driven = tokio::spawn(connection);
        let request = Request::get("https://a.example/")
            .body(Empty::<Bytes>::new())
            .unwrap();
        assert!(sender.send_request(request).await.is_err());
        assert!(driven.await.unwrap().is_err());
    }
}
