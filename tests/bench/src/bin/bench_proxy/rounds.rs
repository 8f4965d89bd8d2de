//! The measurements in order. The two sides alternate, so that both see the same machine state.

use std::time::Duration;

use allowlist::HostPattern;
use anyhow::{Context, Result};
use benchmarks::Sample;
use sandbox::credentials::{
    HeaderPattern, Injection, MaskedSecret, SecretReplacements, SecretValue, prepare_secrets,
};

use super::authority::Authorities;
use super::connection::{Destination, Protocol};
use super::load::{self, CONCURRENCY};
use super::process::{HOST, Plan, Proxy};
use super::report::{Comparison, Report, Side};
use super::signing;
use super::{Args, answers};

/// The amount of work.
struct Effort {
    starts: u32,
    rounds: u32,
    latency: Duration,
    rate: Duration,
    transfer: u32,
    answers: u32,
    signing: signing::Effort,
}

const FULL: Effort = Effort {
    starts: 20,
    rounds: 5,
    latency: Duration::from_secs(1),
    rate: Duration::from_secs(2),
    transfer: 256 * 1024 * 1024,
    answers: 500,
    signing: signing::Effort { rounds: 5, transfer: 256 << 20, long: 5 << 30 },
};
const QUICK: Effort = Effort {
    starts: 20,
    rounds: 3,
    latency: Duration::from_millis(300),
    rate: Duration::from_millis(500),
    transfer: 64 * 1024 * 1024,
    answers: 100,
    signing: signing::Effort { rounds: 3, transfer: 64 << 20, long: 1 << 30 },
};

/// Runs all measurements.
pub(crate) async fn measure(args: &Args, origin_roots_pem: &str) -> Result<Report> {
    let effort = if args.quick { QUICK } else { FULL };
    let authorities = Authorities::generate()?;
    let (token, replacements) = token()?;
    let plan = Plan {
        program: &args.program,
        listen: args.listen,
        origin: args.origin,
        origin_roots_pem,
        authorities: &authorities,
        replacements,
        asks: false,
    };
    let mut starts = Sample::default();
    for _ in 0..effort.starts {
        let proxy = Proxy::start(&plan).await?;
        starts.push(proxy.start.as_secs_f64() * 1e3);
        proxy.stop().await?;
    }
    let proxy = Proxy::start(&plan).await?;
    let idle = proxy.memory()?;
    let sides = Sides {
        direct: Destination::new(args.origin, origin_roots_pem, &token)?,
        proxied: Destination::new(args.listen, &authorities.root_pem, &token)?,
    };
    let http1 = sides.compare(&proxy, Protocol::Http1, &effort).await?;
    let http2 = sides.compare(&proxy, Protocol::Http2, &effort).await?;
    let loaded = proxy.memory()?;
    proxy.stop().await?;
    let answer_ms = answers::measure(&plan, &sides.proxied, effort.answers).await?;
    let signing = signing::measure(&plan, &effort.signing).await?;
    Ok(Report {
        start_ms: starts.spread(),
        idle_kib: idle.resident,
        loaded_kib: loaded.resident,
        peak_kib: loaded.peak,
        concurrency: CONCURRENCY,
        transfer_bytes: effort.transfer,
        http1,
        http2,
        answer_ms,
        signing,
    })
}

/// The token of the client, and its replacement in the proxy. All answers are searched for the real one.
fn token() -> Result<(String, SecretReplacements)> {
    let scope = HostPattern::new(HOST).context("no pattern")?;
    let value = SecretValue::new("sk-bench-4f6d1c0a9e8b7d6c5b4a39281706f5e4");
    let header = HeaderPattern::new("authorization").context("no header")?;
    let injection = Injection { scopes: vec![scope], headers: vec![header], ..Injection::default() };
    let secret = MaskedSecret::new("TOKEN", value, injection);
    let prepared = prepare_secrets(&[secret], &[]).context("failed to prepare the token")?;
    let token = prepared.env_vars().get("TOKEN").context("no token")?.clone();
    Ok((token, prepared.into_replacements()))
}

struct Sides {
    direct: Destination,
    proxied: Destination,
}

impl Sides {
    async fn compare(&self, proxy: &Proxy, protocol: Protocol, effort: &Effort) -> Result<Comparison> {
        let (mut direct, mut proxied) = (Samples::default(), Samples::default());
        for _ in 0..effort.rounds {
            direct.round(&self.direct, protocol, effort, None).await?;
            proxied.round(&self.proxied, protocol, effort, Some(proxy)).await?;
        }
        let processor_us = proxied.processor.median() * 1e6;
        Ok(Comparison { direct: direct.side(), proxied: proxied.side(), processor_us })
    }
}

/// One number per round.
#[derive(Default)]
struct Samples {
    rate: Sample,
    connections: Sample,
    paced_p50: Sample,
    paced_p99: Sample,
    /// Seconds of the proxy's processor time a request.
    processor: Sample,
    p50: Sample,
    down: Sample,
    up: Sample,
}

impl Samples {
    async fn round(
        &mut self,
        to: &Destination,
        protocol: Protocol,
        effort: &Effort,
        proxy: Option<&Proxy>,
    ) -> Result<()> {
        let latency = load::latency(to, protocol, effort.latency).await?;
        self.p50.push(latency.median());
        let paced = load::paced(to, protocol, effort.latency).await?;
        self.paced_p50.push(paced.median());
        self.paced_p99.push(paced.quantile(99));
        self.connections.push(load::connections(to, protocol, effort.latency).await?);
        let used = || proxy.map_or(Ok(0.0), Proxy::processor_seconds);
        let before = used()?;
        let rate = load::rate(to, protocol, effort.rate).await?;
        self.processor.push((used()? - before) / (rate * effort.rate.as_secs_f64()));
        self.rate.push(rate);
        let (down, up) = load::throughput(to, protocol, effort.transfer).await?;
        self.down.push(down);
        self.up.push(up);
        Ok(())
    }

    fn side(&self) -> Side {
        Side {
            requests_per_second: self.rate.median(),
            p50_us: self.p50.median() * 1e6,
            paced_p50_us: self.paced_p50.median() * 1e6,
            paced_p99_us: self.paced_p99.median() * 1e6,
            connections_per_second: self.connections.median(),
            down_mb_per_second: self.down.median(),
            up_mb_per_second: self.up.median(),
        }
    }
}
