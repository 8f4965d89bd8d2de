//! A request line that hyper cannot hold.
//!
//! `http::Uri` accepts no `"`, `<` or `>`, which clients send in queries. Such a request has its
//! own connection, on which the line that hyper writes is replaced with the one that the client
//! sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first line of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawLine {
    /// As hyper writes it, with its line end.
    pub(crate) written: Vec<u8>,
    /// As it is sent.
    pub(crate) sent: Vec<u8>,
}

/// A connection for one request, which begins with a different line than hyper writes.
pub(super) struct WithRawLine<S> {
    stream: S,
    /// The line that hyper writes first; empty once it was written.
    written: Vec<u8>,
    /// The line to send before all else, and how much of it was sent.
    first: Vec<u8>,
    sent: usize,
}

impl<S> WithRawLine<S> {
    pub(super) fn new(stream: S, line: RawLine) -> Self {
        Self { stream, written: line.written, first: line.sent, sent: 0 }
    }
}

impl<S: AsyncWrite + Unpin> WithRawLine<S> {
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is sent before hyper has begun.
        while self.written.is_empty() && self.sent < self.first.len() {
            let rest = self.first.get(self.sent..).unwrap_or_default();
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithRawLine<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.written.is_empty() {
            if !bytes.starts_with(&self.written) {
                let error = io::Error::other("the request does not begin with its request line");
                return Poll::Ready(Err(error));
            }
            return Poll::Ready(Ok(std::mem::take(&mut self.written).len()));
        }
        ready!(self.poll_first(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_first(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_first(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithRawLine<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn line() -> RawLine {
        RawLine { written: b"GET /?%22 HTTP/1.1\r\n".to_vec(), sent: b"GET /?\" HTTP/1.1\r\n".to_vec() }
    }

    #[tokio::test]
    async fn request_line_is_replaced() {
        // So small that the line does not fit at once.
        let (near, mut far) = tokio::io::duplex(4);
        let reading = tokio::spawn(async move {
            let mut read = Vec::new();
            far.read_to_end(&mut read).await.unwrap();
            read
        });
        let mut stream = WithRawLine::new(near, line());
        stream.flush().await.unwrap();
        stream.write_all(b"GET /?%22 HTTP/1.1\r\nhost: a\r\n\r\nGET /?%22 HTTP/1.1\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        drop(stream);
        let expected = b"GET /?\" HTTP/1.1\r\nhost: a\r\n\r\nGET /?%22 HTTP/1.1\r\n";
        assert_eq!(reading.await.unwrap(), expected);
    }

    #[tokio::test]
    async fn unexpected_request_line_is_refused() {
        let (near, _far) = tokio::io::duplex(64);
        let mut stream = WithRawLine::new(near, line());
        assert!(stream.write_all(b"GET / HTTP/1.1\r\n").await.is_err());
    }
}
