//! A socket in front of an engine's that injects faults into calls.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

/// The fault of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The response begins late.
    Slow,
    /// The response ends after some bytes.
    Cut,
    /// The response is not HTTP.
    Nonsense,
    /// The response is a failure of the engine.
    Failure,
}

impl Fault {
    /// Returns each fault in turn.
    pub(super) fn number(number: u32) -> Self {
        match number % 4 {
            0 => Self::Slow,
            1 => Self::Cut,
            2 => Self::Nonsense,
            _ => Self::Failure,
        }
    }

    const DELAY: Duration = Duration::from_secs(3);
    /// Bytes before the cut, in the middle of most responses.
    const WHOLE: usize = 60;
}

/// The socket, which is removed when this value is dropped.
pub(super) struct Faulty {
    path: PathBuf,
    ended: Arc<AtomicBool>,
    seen: Arc<AtomicU32>,
}

impl Faulty {
    /// Listens at `path`; connection number `at` has the fault, the others are forwarded to
    /// `engine`.
    pub(super) fn listen(path: PathBuf, engine: &Path, fault: Fault, at: u32) -> Result<Self> {
        drop(std::fs::remove_file(&path));
        let listener =
            UnixListener::bind(&path).with_context(|| format!("failed to listen at {}", path.display()))?;
        let (ended, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let faulty = Self { path, ended: Arc::clone(&ended), seen: Arc::clone(&seen) };
        let engine = engine.to_owned();
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let number = seen.fetch_add(1, Ordering::SeqCst);
                let fault = (number == at).then_some(fault);
                let engine = engine.clone();
                std::thread::spawn(move || drop(serve(client, &engine, fault)));
            }
        });
        Ok(faulty)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of connections so far.
    pub(super) fn seen(&self) -> u32 {
        self.seen.load(Ordering::SeqCst)
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        drop(UnixStream::connect(&self.path));
        drop(std::fs::remove_file(&self.path));
    }
}

fn serve(mut client: UnixStream, engine: &Path, fault: Option<Fault>) -> std::io::Result<()> {
    let answer: &[u8] = match fault {
        Some(Fault::Nonsense) => b"SSH-2.0-OpenSSH_9.2\r\n",
        Some(Fault::Failure) => {
            b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: 45\r\nConnection: close\r\n\r\n{\"cause\":\"storm\",\"message\":\"storm\",\"a\":\"bbbb\"}"
        }
        _ => b"",
    };
    if !answer.is_empty() {
        client.set_read_timeout(Some(Duration::from_secs(5)))?;
        let _ = client.read(&mut [0; 16 * 1024])?;
        return client.write_all(answer);
    }
    let server = UnixStream::connect(engine)?;
    let (mut up, mut to_engine) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        drop(std::io::copy(&mut up, &mut to_engine));
        drop(to_engine.shutdown(Shutdown::Write));
    });
    let (mut from_engine, mut down) = (server, client);
    match fault {
        Some(Fault::Slow) => {
            // tidy: sleep: the fault itself.
            std::thread::sleep(Fault::DELAY);
        }
        Some(Fault::Cut) => {
            let mut piece = vec![0; Fault::WHOLE];
            let length = from_engine.read(&mut piece)?;
            drop(down.write_all(piece.get(..length).unwrap_or_default()));
            drop(from_engine.shutdown(Shutdown::Both));
            return down.shutdown(Shutdown::Both);
        }
        _ => {}
    }
    drop(std::io::copy(&mut from_engine, &mut down));
    down.shutdown(Shutdown::Write)
}
