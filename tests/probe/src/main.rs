//! A static program that tries, from inside a container, what should fail there. Each attempt prints one JSON object:
//! `{"outcome": "reached" | "refused" | "blocked", "detail": …}`; the test that started it decides what is right.
#![expect(clippy::print_stdout, reason = "the outcome is the program's output")]

mod datagram;
mod flood;
mod icmp;
mod query;
mod stream;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde_json::json;

#[derive(Parser)]
#[command(about = "Tries what a sandbox must not let happen")]
struct Arguments {
    /// Waits so many seconds first: a new interface's link-local address may be used after about two.
    #[arg(long, default_value_t = 0)]
    after: u64,
    #[command(subcommand)]
    attempt: Attempt,
}

#[derive(Subcommand)]
enum Attempt {
    /// Connects over TCP. A link-local IPv6 address is tried on every interface.
    Tcp {
        address: IpAddr,
        port: u16,
        /// Binds to this interface first (`SO_BINDTODEVICE`).
        #[arg(long)]
        device: Option<String>,
    },
    /// Sends datagrams.
    Udp { address: SocketAddr, count: u32 },
    /// Sends ICMP echo requests, with a raw socket where the kernel lets it, else with a ping socket.
    Icmp { address: IpAddr, count: u16 },
    /// Asks a name server.
    Dns {
        server: SocketAddr,
        name: String,
        /// The number of the type; 1 is A, 16 is TXT, 28 is AAAA.
        kind: u16,
        /// Over TCP.
        #[arg(long)]
        tcp: bool,
    },
    /// Begins handshakes of TLS, each for another name below `host`, and tells how many were answered.
    Names { host: String, count: u32 },
    /// Holds connections that send a byte a second, and tells how many the peer closed.
    Slow {
        host: String,
        port: u16,
        count: u32,
        /// Gives up after so many seconds.
        seconds: u64,
    },
    /// Prints the addresses of all interfaces.
    Addresses,
    /// Waits for so many seconds.
    Sleep { seconds: u64 },
}

/// What an attempt came to.
pub(crate) struct Outcome {
    outcome: &'static str,
    detail: String,
}

impl Outcome {
    pub(crate) fn reached(detail: impl Into<String>) -> Self {
        Self {
            outcome: "reached",
            detail: detail.into(),
        }
    }

    /// The peer's host answered that nobody listens: it was reached all the same.
    pub(crate) fn of_error(error: &std::io::Error) -> Self {
        let outcome = if error.kind() == std::io::ErrorKind::ConnectionRefused {
            "refused"
        } else {
            "blocked"
        };
        Self {
            outcome,
            detail: error.to_string(),
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    std::thread::sleep(Duration::from_secs(arguments.after));
    let outcome = match arguments.attempt {
        Attempt::Tcp {
            address,
            port,
            device,
        } => stream::connect(address, port, device.as_deref()),
        Attempt::Udp { address, count } => datagram::send(address, count),
        Attempt::Icmp { address, count } => icmp::send(address, count),
        Attempt::Dns {
            server,
            name,
            kind,
            tcp,
        } => query::ask(server, &name, kind, tcp),
        Attempt::Names { host, count } => flood::names(&host, count),
        Attempt::Slow {
            host,
            port,
            count,
            seconds,
        } => flood::slow(&host, port, count, seconds),
        Attempt::Addresses => Outcome::reached(addresses()?),
        Attempt::Sleep { seconds } => {
            std::thread::sleep(Duration::from_secs(seconds));
            Outcome::reached("slept")
        }
    };
    println!(
        "{}",
        json!({"outcome": outcome.outcome, "detail": outcome.detail})
    );
    Ok(())
}

fn addresses() -> Result<String> {
    let v4 = std::fs::read_to_string("/proc/net/fib_trie")?;
    let v6 = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    Ok(format!("{v4}\n{v6}"))
}
