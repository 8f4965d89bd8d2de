//! `engine`: finds the user's podman, or runs a private one.

use anyhow::Result;
use clap::Args;

use crate::engine::{Podman, PrivateEngine, Socket, find_running};
use crate::report::say;

#[derive(Args)]
pub(crate) struct EngineArgs {
    /// Run a private engine of this podman version, in its own network namespaces.
    #[arg(long, value_name = "VERSION")]
    podman: Option<Podman>,
    /// Stop the private engine, and remove its containers and namespaces.
    #[arg(long)]
    stop: bool,
}

/// Prints the socket's URL: `export CONTAINER_HOST=$(cargo xtask engine)`.
pub(crate) fn run(args: &EngineArgs) -> Result<()> {
    if args.stop {
        return PrivateEngine::new(args.podman).stop();
    }
    println!("{}", find_or_start(args.podman)?.url());
    Ok(())
}

/// The user's engine if no version is requested and one is running; else a private one.
pub(crate) fn find_or_start(podman: Option<Podman>) -> Result<Socket> {
    if podman.is_none() {
        if let Some((socket, version)) = find_running() {
            say(format!("using podman {version} on {}", socket.url()));
            return Ok(socket);
        }
        say("no podman responds on CONTAINER_HOST, DOCKER_HOST or the usual sockets; starting a private one");
    }
    let engine = PrivateEngine::new(podman);
    engine.ensure()?;
    describe(&engine);
    Ok(engine.socket().clone())
}

fn describe(engine: &PrivateEngine) {
    if let Some(pair) = engine.network() {
        say(format!("network namespaces: {} (the engine's host), {} (the world)", pair.host, pair.world));
    }
    say(format!("podman's command line for it: {}", engine.client().display()));
    let version = engine.version_flag();
    say(format!("it keeps running; to stop it: cargo xtask engine{version} --stop"));
}
