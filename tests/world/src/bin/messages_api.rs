//! Serves the stand-in for the Messages API on a loopback address until its standard input ends.
//!
//! The first and only line on standard output is the base URL to give to Claude Code as
//! `ANTHROPIC_BASE_URL`. Waiting for the end of standard input ties the server's life to whoever
//! started it.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use test_world::messages_api::Script;
use test_world::messages_api::serve;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("failed to listen on loopback")?;
    let address = listener.local_addr().context("failed to read the listener's address")?;
    writeln!(std::io::stdout(), "http://{address}").context("failed to print the address")?;
    tokio::select! {
        failure = serve(listener, Arc::new(Script::default())) => failure.map(|never| match never {}).context("failed to accept"),
        end = wait_for_end_of_input() => end,
    }
}

async fn wait_for_end_of_input() -> anyhow::Result<()> {
    let mut buffer = [0; 64];
    let mut input = tokio::io::stdin();
    while input.read(&mut buffer).await.context("failed to read standard input")? > 0 {}
    Ok(())
}
