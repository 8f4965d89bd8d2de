//! Fuzz target: arbitrary HTTP/2 frames from a client. See `fuzzing`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fuzz_input::{Input, pieces};
use http::Response;
use http_body_util::Full;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::resets::{Resets, Unseen};
use crate::frames::{Frames, RST_STREAM};
use crate::fuzzing::{Peer, run};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) seen: AtomicU64,
    pub(super) refused: AtomicU64,
}

impl Unseen for Arc<Counts> {
    fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// The first bytes choose how the others, sent after the preface, are split.
///
/// # Panics
///
/// If more requests are refused unseen than streams are reset in the output.
pub fn http2_frames(data: &[u8]) {
    let mut input = Input::new(data);
    let sizes = input.sizes();
    let bytes = [PREFACE, input.rest()].concat();
    let counts = Arc::new(Counts::default());
    let mut stream = Resets::new(Peer::new(&pieces(&bytes, &sizes)), Arc::clone(&counts));
    let service = service_fn(|_| {
        counts.seen.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok")))) }
    });
    run(async {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(8)
            .max_header_list_size(80 * 1024)
            .serve_connection(TokioIo::new(&mut stream), service);
        // The client may make it end in any way.
        let _ = connection.await;
    });
    let mut frames = Frames::default();
    let mut resets = 0;
    let Ok(()) = frames.follow(stream.inner().written(), |frame| {
        resets += u64::from(frame.kind == RST_STREAM);
        Ok::<(), Infallible>(())
    });
    let refused = counts.refused.load(Ordering::Relaxed);
    assert!(refused <= resets, "{refused} refusals for {resets} resets");
}
