//! Measurements by number of requests or by duration.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use benchmarks::Sample;
use tokio::task::JoinSet;

use super::connection::{Connection, Destination, Protocol};

/// Concurrent requests in the rate measurement.
pub(crate) const CONCURRENCY: usize = 16;
/// Requests that share one HTTP/2 connection.
const STREAMS: usize = 4;
/// Warm-up requests, which mint certificates and fill pools.
const WARM_UP: usize = 50;

/// Seconds of each request, sent sequentially on one connection.
pub(crate) async fn latency(to: &Destination, protocol: Protocol, duration: Duration) -> Result<Sample> {
    let mut connection = Connection::open(to, protocol).await?;
    for _ in 0..WARM_UP {
        connection.small().await?;
    }
    let mut sample = Sample::default();
    let end = Instant::now() + duration;
    while Instant::now() < end {
        let begin = Instant::now();
        connection.small().await?;
        sample.push(begin.elapsed().as_secs_f64());
    }
    Ok(sample)
}

/// Requests per second with [`CONCURRENCY`] in flight.
pub(crate) async fn rate(to: &Destination, protocol: Protocol, duration: Duration) -> Result<f64> {
    let mut workers = JoinSet::new();
    let connections = open(to, protocol).await?;
    let begin = Instant::now();
    for mut connection in connections {
        workers.spawn(async move {
            let mut count = 0_u32;
            while begin.elapsed() < duration {
                connection.small().await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut total = 0.0;
    while let Some(done) = workers.join_next().await {
        total += f64::from(done.context("a worker failed")??);
    }
    Ok(total / begin.elapsed().as_secs_f64())
}

/// Megabytes per second, down and up.
pub(crate) async fn throughput(to: &Destination, protocol: Protocol, length: u32) -> Result<(f64, f64)> {
    let mut connection = Connection::open(to, protocol).await?;
    connection.small().await?;
    let megabytes = f64::from(length) / 1e6;
    let begin = Instant::now();
    connection.download(length.into()).await?;
    let down = megabytes / begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    connection.upload(length.into()).await?;
    Ok((down, megabytes / begin.elapsed().as_secs_f64()))
}

/// Handles for [`CONCURRENCY`] requests, warmed up.
async fn open(to: &Destination, protocol: Protocol) -> Result<Vec<Connection>> {
    let mut handles = Vec::new();
    while handles.len() < CONCURRENCY {
        let mut connection = Connection::open(to, protocol).await?;
        connection.small().await?;
        let shares: Vec<_> = (1..STREAMS).map_while(|_| connection.share()).collect();
        handles.push(connection);
        handles.extend(shares);
    }
    Ok(handles)
}
