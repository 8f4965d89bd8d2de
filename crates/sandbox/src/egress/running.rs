//! A proxy that serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use allowlist::Allowlist;
use sandbox_proxy_protocol::Command;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::ProxyError;
use super::proxy::ChannelHandle;
use super::relay::Relay;
use super::remains::Remains;

/// How long a proxy may take to finish what it does and to end: it drains for two seconds, and may have thousands of records to write.
/// One that hangs is given up sooner.
const END: Duration = Duration::from_mins(1);

/// The proxy of one task. Dropping it ends the proxy, because the proxy's stdin ends with it, but leaves its container and its
/// network, labelled; [`RunningProxy::close`] leaves nothing.
#[derive(Debug)]
pub(crate) struct RunningProxy {
    commands: mpsc::Sender<Command>,
    quarantined: Arc<AtomicBool>,
    ended: watch::Receiver<Option<String>>,
    remains: Remains,
    /// Streams to the host end with it.
    _relay: Option<Relay>,
}

impl RunningProxy {
    pub(super) fn new(channel: ChannelHandle, relay: Option<Relay>, remains: Remains) -> Self {
        Self {
            commands: channel.commands,
            quarantined: Arc::default(),
            ended: channel.ended,
            remains,
            _relay: relay,
        }
    }

    /// Speaks to the proxy while it serves. It does not keep the proxy alive.
    pub(crate) fn control(&self) -> ProxyControl {
        ProxyControl { commands: self.commands.downgrade(), quarantined: Arc::clone(&self.quarantined) }
    }

    /// Ends the proxy and removes its container and its network. The task's container must be gone before.
    pub(crate) async fn close(self) -> Result<(), ProxyError> {
        let Self { commands, mut ended, remains, _relay, .. } = self;
        drop(commands);
        // When the time is over the container is killed; the last records of a proxy that hangs are lost then.
        let _ = timeout(END, ended.wait_for(Option::is_some)).await;
        remains.remove().await
    }
}

/// Live commands to a proxy.
#[derive(Debug, Clone)]
pub(crate) struct ProxyControl {
    commands: mpsc::WeakSender<Command>,
    /// Never false again.
    quarantined: Arc<AtomicBool>,
}

impl ProxyControl {
    /// Puts `policy` in force from the next request on. No policy ends a quarantine.
    pub(crate) async fn set_policy(&self, policy: Allowlist) -> Result<(), ProxyError> {
        if self.quarantined.load(Ordering::Acquire) {
            return Err(ProxyError::Quarantined);
        }
        self.send(Command::SetPolicy { policy }).await
    }

    /// Refuses everything from now on.
    pub(crate) async fn quarantine(&self) -> Result<(), ProxyError> {
        self.quarantined.store(true, Ordering::Release);
        self.send(Command::Quarantine {}).await
    }

    async fn send(&self, command: Command) -> Result<(), ProxyError> {
        let commands = self.commands.upgrade().ok_or(ProxyError::ProxyGone)?;
        commands.send(command).await.map_err(|_| ProxyError::ProxyGone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_policy_ends_a_quarantine() {
        let (commands, mut received) = mpsc::channel(4);
        let control = ProxyControl { commands: commands.downgrade(), quarantined: Arc::default() };
        control.set_policy(Allowlist::default()).await.unwrap();
        control.clone().quarantine().await.unwrap();
        let refused = control.set_policy(Allowlist::default()).await;
        assert!(matches!(refused, Err(ProxyError::Quarantined)), "{refused:?}");
        drop(commands);
        assert!(matches!(received.recv().await, Some(Command::SetPolicy { .. })));
        assert!(matches!(received.recv().await, Some(Command::Quarantine {})));
        assert!(received.recv().await.is_none());
    }
}
