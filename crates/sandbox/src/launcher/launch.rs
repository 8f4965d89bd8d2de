//! The programs of a scripted engine, which only play their scripts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, watch};

use super::engine::{ScriptedEngine, ScriptedProgram};
use super::script::{Lost, Signal};
use super::supervisor::supervise;
use crate::container::{
    Answer, Chunk, ContainerError, Exit, LaunchPlan, LaunchedProgram, Launcher, ProgramControl, ProgramLog,
};
use crate::program::SUPERVISE;
use sandbox_podman::{EngineError, Output, Stdin};

/// The capacity of a pipe.
const PIPE: usize = 64 << 10;

/// A program that was launched.
#[derive(Debug)]
struct Playing {
    name: String,
    signal: watch::Sender<Signal>,
    ended: watch::Receiver<Option<Result<Exit, Lost>>>,
    /// Its output. Locked for single operations only.
    written: Written,
}

type Written = Arc<Mutex<Vec<Chunk>>>;

impl Launcher for ScriptedEngine {
    fn has_image<'a>(&'a self, image: &'a str) -> Answer<'a, bool> {
        Box::pin(async move { Ok(self.has_image(image)) })
    }

    fn launch<'a>(&'a self, plan: &'a LaunchPlan) -> Answer<'a, LaunchedProgram, ContainerError> {
        Box::pin(async move { self.start(plan) })
    }
}

impl ScriptedEngine {
    fn start(&self, plan: &LaunchPlan) -> Result<LaunchedProgram, ContainerError> {
        let (stdin, reader) = tokio::io::duplex(PIPE);
        let (output, chunks) = mpsc::unbounded_channel();
        let (signal, signalled) = watch::channel(Signal::None);
        let (end, ended) = watch::channel(None);
        let written = Written::default();
        let engine = self.clone();
        if plan.entrypoint.iter().flatten().eq(SUPERVISE.iter()) {
            let plan = plan.clone();
            tokio::spawn(async move {
                end.send_replace(Some(supervise(&engine, &plan, reader, signalled, output).await));
            });
        } else {
            let (number, script) = self.begin(ScriptedProgram::of(plan))?;
            let written = Arc::clone(&written);
            tokio::spawn(async move {
                let input = read(&engine, number, reader);
                let write = move |chunk: Chunk| {
                    lock(&written).push(chunk.clone());
                    // It is not an error if nothing reads the output.
                    let _ = output.send(chunk);
                };
                end.send_replace(Some(script.play(input, signalled, write).await));
            });
        }
        let chunks = stream::unfold(chunks, async |mut chunks| Some((Ok(chunks.recv().await?), chunks)));
        Ok(LaunchedProgram {
            stdin: Stdin::new(stdin),
            output: Output::new(chunks),
            control: Arc::new(Playing { name: plan.name.clone(), signal, ended, written }),
        })
    }
}

impl Playing {
    async fn end(&self) -> Result<Exit, EngineError> {
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await.map(|ended| *ended);
        match ended {
            Ok(Some(Ok(exit))) => Ok(exit),
            // Also for a script that panics.
            _ => Err(EngineError::unreachable("wait for", &self.name)),
        }
    }

    fn send(&self, signal: Signal) {
        self.signal.send_replace(signal);
    }
}

impl ProgramControl for Playing {
    fn wait(&self) -> Answer<'_, Exit> {
        Box::pin(self.end())
    }

    fn stop(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.send(Signal::Stop);
            self.end().await.map(drop)
        })
    }

    fn kill(&self) -> Answer<'_, ()> {
        self.send(Signal::Kill);
        Box::pin(std::future::ready(Ok(())))
    }

    fn log(&self) -> Answer<'_, ProgramLog> {
        let ended = self.ended.borrow().is_some();
        let written = lock(&self.written).clone();
        let output = Output::new(stream::iter(written.into_iter().map(Ok)));
        Box::pin(std::future::ready(Ok(ProgramLog { ended, output })))
    }

    fn remove(&self) -> Answer<'_, ()> {
        self.kill()
    }
}

async fn read(engine: &ScriptedEngine, number: usize, mut stdin: impl AsyncRead + Unpin) {
    let mut buffer = Vec::with_capacity(PIPE);
    while let Ok(1..) = stdin.read_buf(&mut buffer).await {
        engine.keep_input(number, &buffer);
        buffer.clear();
    }
}

/// Code that holds the lock cannot panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
