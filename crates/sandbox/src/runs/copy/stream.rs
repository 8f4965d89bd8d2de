//! Streams a tree to the engine while it is read.

use std::io::{self, Write};
use std::path::Path;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use tokio::sync::mpsc;

use super::destination::{self, Covered};
use super::source::Source;
use crate::error::RunError;
use crate::error::SandboxError;
use crate::spec::RunName;
use sandbox_podman::{Engine, Owner};

/// The bytes of a piece; up to four may wait.
const PIECE: usize = 128 << 10;

/// Copies `source` of the host to `target` of a container. A failed copy may be partial.
pub(in crate::runs) async fn copy(
    engine: &Engine,
    container: &str,
    run: &RunName,
    covered: &Covered,
    owner: Owner,
    (source, target): (&Path, &str),
) -> Result<(), SandboxError> {
    let path = source.to_owned();
    let tree = blocking(move || Source::open(&path)).await??;
    let destination = destination::find(engine, container, run, target, tree.is_dir(), covered).await?;
    let (sender, receiver) = mpsc::channel(4);
    let (parents, at) = (destination.parents, destination.at);
    let writing = blocking(move || {
        let written = tree.write(&parents, &at, Pieces::new(&sender));
        if written.is_err() {
            // The engine must not mistake a partial archive for a complete one.
            let _ = sender.blocking_send(Err(io::ErrorKind::InvalidData.into()));
        }
        written
    });
    let pieces =
        stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|piece| (piece, receiver)));
    let (written, sent) = tokio::join!(writing, engine.upload(container, &destination.folder, owner, pieces));
    match (written?, sent) {
        // The engine closed the connection: its error is the cause.
        (Err(RunError::Source { source, .. }), Err(error)) if source.kind() == io::ErrorKind::BrokenPipe => {
            Err(error.into())
        }
        (Err(error), _) => Err(error.into()),
        (Ok(()), sent) => Ok(sent?),
    }
}

/// Reads files on a thread where waiting for a disk does not block the runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, RunError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| RunError::Source { path: "".into(), source: io::Error::other(error) })
}

/// Splits the written bytes into pieces.
struct Pieces<'a> {
    sender: &'a mpsc::Sender<io::Result<Bytes>>,
    piece: BytesMut,
}

impl<'a> Pieces<'a> {
    fn new(sender: &'a mpsc::Sender<io::Result<Bytes>>) -> Self {
        Self { sender, piece: BytesMut::with_capacity(PIECE) }
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, BytesMut::with_capacity(PIECE));
        self.sender.blocking_send(Ok(piece.freeze())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
