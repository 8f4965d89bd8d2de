//! An internet in a container: `stand-in ADDRESS`. The demo runs it where there is no other.
//!
//! Once it listens at ADDRESS, it prints the certificate of its authority; the last line of it says that it is ready.
//! It ends by itself after a while, so that a demo that was killed leaves nothing running.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context;
use test_world::world::World;

/// Longer than a demo takes, also where the model of a real API thinks for minutes.
const LIFE: Duration = Duration::from_mins(15);

fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).context("usage: stand-in ADDRESS")?;
    let address: Ipv4Addr = address.parse().with_context(|| format!("{address} is no IPv4 address"))?;
    let world = World::start(address).with_context(|| format!("cannot listen at {address}"))?;
    let mut output = std::io::stdout();
    output.write_all(world.roots_pem().as_bytes()).context("cannot print the certificate")?;
    output.flush().context("cannot print the certificate")?;
    std::thread::sleep(LIFE);
    Ok(())
}
