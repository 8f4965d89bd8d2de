//! Measurements by number of requests or by duration.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use benchmarks::Sample;
use tokio::task::JoinSet;

use super::connection::{Connection, Destination, Protocol};

/// Concurrent requests in the rate measurement.
pub(crate) const CONCURRENCY: usize = 16;
/// The time between two requests at a steady pace: 1,000 a second.
const PACE: Duration = Duration::from_millis(1);
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
    let connections = open(to, protocol).await?;
    let begin = Instant::now();
    let workers = connections.into_iter().map(|mut connection| async move {
        let mut count = 0_u32;
        while begin.elapsed() < duration {
            connection.small().await?;
            count += 1;
        }
        anyhow::Ok(count)
    });
    let counts = all(workers).await?;
    Ok(f64::from(counts.iter().sum::<u32>()) / begin.elapsed().as_secs_f64())
}

/// New connections per second, each with one request, with [`CONCURRENCY`] at once.
pub(crate) async fn connections(to: &Destination, protocol: Protocol, duration: Duration) -> Result<f64> {
    let begin = Instant::now();
    let workers = (0..CONCURRENCY).map(|_| {
        let to = to.clone();
        async move {
            let mut count = 0_u32;
            while begin.elapsed() < duration {
                Connection::open(&to, protocol).await?.small().await?;
                count += 1;
            }
            anyhow::Ok(count)
        }
    });
    let counts = all(workers).await?;
    Ok(f64::from(counts.iter().sum::<u32>()) / begin.elapsed().as_secs_f64())
}

/// Seconds of each request, at [`PACE`].
pub(crate) async fn paced(to: &Destination, protocol: Protocol, duration: Duration) -> Result<Sample> {
    let connections = open(to, protocol).await?;
    let between = PACE * u32::try_from(connections.len())?;
    let begin = Instant::now();
    let workers = connections.into_iter().zip(0_u32..).map(|(mut connection, number)| async move {
        let mut seconds = Vec::new();
        let mut due = begin + PACE * number;
        while due < begin + duration {
            tokio::time::sleep_until(due.into()).await;
            // The timer is coarser than a request takes.
            let sent = Instant::now();
            connection.small().await?;
            seconds.push(sent.elapsed().as_secs_f64());
            due += between;
        }
        anyhow::Ok(seconds)
    });
    Ok(all(workers).await?.into_iter().flatten().collect())
}

/// The results of `workers`, which run at once.
async fn all<T: Send + 'static>(
    workers: impl Iterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    let mut running: JoinSet<Result<T>> = workers.collect();
    let mut results = Vec::new();
    while let Some(done) = running.join_next().await {
        results.push(done.context("a worker failed")??);
    }
    Ok(results)
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
