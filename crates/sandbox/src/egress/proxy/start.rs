//! Starts a proxy: container, start document, ready.

use std::time::Duration;

use sandbox_proxy_protocol::{PROTOCOL_VERSION, ProxyMessage, StartConfig, to_secret_line};
use tokio::time::timeout;

use super::channel::Channel;
use crate::container::{ContainerPlan, Created};
use crate::egress::ProxyError;
use sandbox_podman::Engine;

/// From the start document to the ready message. It takes milliseconds; a busy machine gets the rest.
const DEADLINE: Duration = Duration::from_secs(10);

/// Returns when the proxy serves. On an error its container may be there.
pub(in crate::egress) async fn start(
    engine: &Engine,
    plan: &ContainerPlan,
    config: &StartConfig,
) -> Result<Channel, ProxyError> {
    let running = Created::create(engine, plan)
        .await?
        .attach()
        .await?
        .start()
        .await?;
    let mut channel = Channel::new(running.stdin, running.output, plan.labels.context());
    let answer = timeout(DEADLINE, introduce(&mut channel, config)).await;
    let reason = match answer {
        Ok(Ok(())) => return Ok(channel),
        Ok(Err(reason)) => reason,
        Err(_) => format!("it was not ready after {DEADLINE:?}"),
    };
    Err(ProxyError::ProxyStart {
        reason,
        stderr: channel.stderr(),
    })
}

async fn introduce(channel: &mut Channel, config: &StartConfig) -> Result<(), String> {
    let line = to_secret_line(config).map_err(|error| error.to_string())?;
    // A proxy that ended does not read; what it said is worth more than that.
    let sent = channel.send(&line).await;
    drop(line);
    let mut messages = match channel.receive().await {
        Some(received) => received?.into_iter(),
        None => {
            return Err(sent.map_or_else(|error| format!("it ended: {error}"), |()| "it ended".to_owned()));
        }
    };
    match messages.next() {
        Some(ProxyMessage::Ready {
            protocol: PROTOCOL_VERSION,
        }) => {
            channel.put_back(messages.collect());
            Ok(())
        }
        Some(ProxyMessage::Ready { protocol }) => Err(format!(
            "it speaks version {protocol} of the protocol, this program {PROTOCOL_VERSION}"
        )),
        Some(ProxyMessage::Failed { reason }) => Err(reason),
        Some(ProxyMessage::Record(_)) | None => Err("it sent something else before it was ready".to_owned()),
    }
}
