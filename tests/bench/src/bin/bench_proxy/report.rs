//! The printed report: the numbers of both sides, unrounded.

use benchmarks::Spread;
use serde::Serialize;

/// All measurements.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// From the spawn of the process to its ready message, in milliseconds.
    pub(crate) start_ms: Spread,
    /// Resident before the first request.
    pub(crate) idle_kib: u64,
    /// Resident after the last request.
    pub(crate) loaded_kib: u64,
    /// Peak resident memory.
    pub(crate) peak_kib: u64,
    /// Concurrent requests in the rate measurement.
    pub(crate) concurrency: usize,
    /// Bytes of each transfer.
    pub(crate) transfer_bytes: u32,
    pub(crate) http1: Comparison,
    pub(crate) http2: Comparison,
    /// From an answer to a question to the end of the small response that it permits, in
    /// milliseconds.
    pub(crate) answer_ms: Spread,
    pub(crate) signing: Signing,
}

/// A chunked upload over HTTP/1.1 through the proxy.
#[derive(Debug, Serialize)]
pub(crate) struct Signing {
    /// Forwarded unchanged.
    pub(crate) passed_mb_per_second: f64,
    /// Signed again, chunk by chunk.
    pub(crate) signed_mb_per_second: f64,
    /// Bytes of data uploaded before the peak was read.
    pub(crate) long_bytes: u64,
    /// Peak resident memory.
    pub(crate) peak_kib: u64,
}

/// The same load directly to the origin and through the proxy.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) direct: Side,
    pub(crate) proxied: Side,
    /// Processor time of the proxy for one request, in microseconds.
    pub(crate) processor_us: f64,
}

/// Medians over the rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Side {
    pub(crate) requests_per_second: f64,
    pub(crate) p50_us: f64,
    /// At 1,000 requests a second.
    pub(crate) paced_p50_us: f64,
    pub(crate) paced_p99_us: f64,
    /// New ones, each with one request.
    pub(crate) connections_per_second: f64,
    pub(crate) down_mb_per_second: f64,
    pub(crate) up_mb_per_second: f64,
}
