//! The other end of a connection, which has already sent all that it will send.

use std::io;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

/// The most bytes kept of the data written to it.
const KEPT: usize = 1 << 20;

/// Deadlines need a clock, and servers spawn tasks.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.unwrap_or_else(|error| panic!("{error}"))
});

/// Runs `future` to completion.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// A stream that yields its pieces and ends.
#[derive(Debug)]
pub(crate) struct Peer {
    pieces: std::vec::IntoIter<Vec<u8>>,
    piece: Vec<u8>,
    written: Vec<u8>,
}

impl Peer {
    pub(crate) fn new(pieces: &[&[u8]]) -> Self {
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        Self { pieces: pieces.into_iter(), piece: Vec::new(), written: Vec::new() }
    }

    /// The data written to it so far.
    pub(crate) fn written(&self) -> &[u8] {
        &self.written
    }
}

impl AsyncRead for Peer {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.piece.is_empty() {
            match this.pieces.next() {
                Some(piece) => this.piece = piece,
                None => return Poll::Ready(Ok(())),
            }
        }
        let taken = this.piece.len().min(buffer.remaining());
        let rest = this.piece.split_off(taken);
        buffer.put_slice(&this.piece);
        this.piece = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let room = KEPT - self.written.len().min(KEPT);
        let kept = bytes.get(..room.min(bytes.len())).unwrap_or_default().to_vec();
        self.written.extend(kept);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
