//! Starts a proxy in two steps: its container, and later the start document. In between it waits
//! and does nothing.

use std::time::Duration;

use sandbox_proxy_protocol::{PROTOCOL_VERSION, ProxyMessage, StartConfig, to_secret_line};
use tokio::time::timeout;

use super::channel::Channel;
use crate::container::{ContainerPlan, Created, Running};
use crate::egress::ProxyError;
use sandbox_podman::Engine;

/// From the start document to the ready message, which takes milliseconds except on a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);

/// Starts a proxy that waits for its start document.
///
/// Its task may still be unknown: the document names it, with everything that it may reach. Its
/// name and labels remain those of `plan`, because podman cannot change them: a proxy that is
/// created before its task is known has only the labels of its instance.
pub(in crate::egress) async fn start(engine: &Engine, plan: &ContainerPlan) -> Result<Running, ProxyError> {
    let created = Created::create(engine, plan).await?;
    Ok(created.set_up().await?.start().await?)
}

/// Sends a waiting proxy its start document, and returns when it serves the execution context
/// `context`. After an error its container exists, and may run.
pub(in crate::egress) async fn configure(
    waiting: Running,
    context: &str,
    config: &StartConfig,
) -> Result<Channel, ProxyError> {
    let own_kernel = waiting.handle.has_own_kernel();
    let mut channel = Channel::new(waiting.stdin, waiting.output, context);
    let answer = timeout(DEADLINE, exchange(&mut channel, config)).await;
    let reason = match answer {
        Ok(Ok(None)) => return Ok(channel),
        Ok(Ok(Some(reason))) if own_kernel => {
            tracing::warn!(context, "a compromised proxy could reach the host's networks: {reason}");
            return Ok(channel);
        }
        Ok(Ok(Some(reason)) | Err(reason)) => reason,
        Err(_) => format!("it was not ready after {DEADLINE:?}"),
    };
    Err(ProxyError::ProxyStart { reason, stderr: channel.stderr() })
}

/// Configures the proxy, and returns why the kernel does not confine it, if it does not.
async fn exchange(channel: &mut Channel, config: &StartConfig) -> Result<Option<String>, String> {
    let line = to_secret_line(config).map_err(|error| error.to_string())?;
    // A proxy that ended does not read; its own error is more useful.
    let sent = channel.send(&line).await;
    drop(line);
    let mut messages = match channel.receive().await {
        Some(received) => received?.into_iter(),
        None => {
            return Err(sent.map_or_else(|error| format!("it ended: {error}"), |()| "it ended".to_owned()));
        }
    };
    match messages.next() {
        Some(ProxyMessage::Ready { protocol: PROTOCOL_VERSION, unconfined }) => {
            channel.put_back(messages.collect());
            Ok(unconfined)
        }
        Some(ProxyMessage::Ready { protocol, .. }) => {
            Err(format!("it speaks version {protocol} of the protocol, this program {PROTOCOL_VERSION}"))
        }
        Some(ProxyMessage::Failed { reason }) => Err(reason),
        Some(ProxyMessage::Record(_) | ProxyMessage::Traffic(_)) | None => {
            Err("it sent something else before it was ready".to_owned())
        }
    }
}
