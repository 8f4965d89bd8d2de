//! An internet in a process of its own: `stand-in ADDRESS [SOCKET]`.
//!
//! Once it listens at ADDRESS, it prints the certificate of its authority; the last line of it says
//! that it is ready. The tests, which ask it at SOCKET what it saw, end it by closing its standard
//! input. Without SOCKET it is the demo's, in a container, and ends by itself after a while, so
//! that a demo that was killed leaves nothing running.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use test_world::world::WorldServer;

/// Longer than a demo takes, also where the model of a real API thinks for minutes.
const LIFE: Duration = Duration::from_mins(15);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().context("usage: stand-in ADDRESS [SOCKET]")?;
    let address: Ipv4Addr =
        address.parse().with_context(|| format!("{address} is not a valid IPv4 address"))?;
    let world = WorldServer::start(address).with_context(|| format!("failed to listen at {address}"))?;
    let control = arguments.next();
    if let Some(socket) = &control {
        world.control_at(Path::new(socket)).with_context(|| format!("failed to listen at {socket}"))?;
    }
    let mut output = std::io::stdout();
    output.write_all(world.roots_pem().as_bytes()).context("failed to print the certificate")?;
    output.flush().context("failed to print the certificate")?;
    if control.is_some() {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
            .context("failed to read standard input")?;
    } else {
        std::thread::sleep(LIFE);
    }
    Ok(())
}
