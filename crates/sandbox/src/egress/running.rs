//! A proxy that serves.

use std::time::Duration;

use allowlist::Allowlist;
use sandbox_proxy_protocol::Command;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::ProxyError;
use super::proxy::ChannelHandle;
use super::remains::Remains;

/// How long a proxy may take to finish what it does and to end: it drains for two seconds, and may have thousands of records to write.
/// One that hangs is given up sooner.
const END: Duration = Duration::from_mins(1);

/// The proxy of one task. Dropping it ends the proxy, because the proxy's stdin ends with it, but leaves its container and its
/// network, labelled; [`RunningProxy::close`] leaves nothing.
#[derive(Debug)]
pub(crate) struct RunningProxy {
    commands: mpsc::Sender<Command>,
    ended: watch::Receiver<Option<String>>,
    remains: Remains,
}

impl RunningProxy {
    pub(super) fn new(channel: ChannelHandle, remains: Remains) -> Self {
        Self {
            commands: channel.commands,
            ended: channel.ended,
            remains,
        }
    }

    /// Speaks to the proxy while it serves. It does not keep the proxy alive.
    pub(crate) fn control(&self) -> ProxyControl {
        ProxyControl(self.commands.downgrade())
    }

    /// Ends the proxy and removes its container and its network. The task's container must be gone before.
    pub(crate) async fn close(self) -> Result<(), ProxyError> {
        let Self {
            commands,
            mut ended,
            remains,
        } = self;
        drop(commands);
        // When the time is over the container is killed; the last records of a proxy that hangs are lost then.
        let _ = timeout(END, ended.wait_for(Option::is_some)).await;
        remains.remove().await
    }
}

/// Live commands to a proxy.
#[derive(Debug, Clone)]
pub(crate) struct ProxyControl(mpsc::WeakSender<Command>);

impl ProxyControl {
    /// Puts `policy` in force from the next request on.
    pub(crate) async fn set_policy(&self, policy: Allowlist) -> Result<(), ProxyError> {
        self.send(Command::SetPolicy { policy }).await
    }

    /// Refuses everything from now on.
    pub(crate) async fn quarantine(&self) -> Result<(), ProxyError> {
        self.send(Command::Quarantine {}).await
    }

    async fn send(&self, command: Command) -> Result<(), ProxyError> {
        let commands = self.0.upgrade().ok_or(ProxyError::ProxyGone)?;
        commands.send(command).await.map_err(|_| ProxyError::ProxyGone)
    }
}
