//! The time from an answer to a question of the proxy to the response that it permits.

use std::time::Instant;

use anyhow::Result;
use benchmarks::{Sample, Spread};
use sandbox::credentials::SecretReplacements;

use super::connection::{Connection, Destination, Protocol};
use super::process::{Plan, Proxy};

/// Milliseconds from each of `count` answers to the end of a small response.
pub(crate) async fn measure(plan: &Plan<'_>, to: &Destination, count: u32) -> Result<Spread> {
    let replacements = SecretReplacements::default();
    let mut proxy = Proxy::start(&Plan { asks: true, replacements, ..*plan }).await?;
    let mut connection = Connection::open(to, Protocol::Http1).await?;
    let mut sample = Sample::default();
    for _ in 0..count {
        let answered = async {
            let question = proxy.question().await?;
            let begin = Instant::now();
            proxy.permit_once(question).await.map(|()| begin)
        };
        let (begin, ()) = tokio::try_join!(answered, connection.small())?;
        sample.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    proxy.stop().await?;
    Ok(sample.spread())
}
