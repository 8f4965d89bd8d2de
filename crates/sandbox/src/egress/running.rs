//! A running proxy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allowlist::{Allowlist, Rule, RuleChange};
use sandbox_credentials::SecretReplacements;
use sandbox_proxy_protocol::{Command, LONGEST_DOWN_MS, Record, ReplacementMap, Traffic, Verdict};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::proxy::{Answer, ChannelHandle, Order};
use super::relay::Relay;
use super::resources::EgressResources;
use super::{ProxyError, ShieldState};
use crate::container::Handle;

/// How long a proxy may take to finish its work and end: it drains for two seconds, and may have
/// thousands of records to write. One that hangs is abandoned sooner.
const END: Duration = Duration::from_mins(1);
/// How long a change may take until it is in force and logged, which takes milliseconds except on a
/// very busy machine.
const CONFIRMATION: Duration = Duration::from_secs(30);

/// The proxy of one task. Dropping it ends the proxy, because that closes the proxy's stdin, but
/// leaves its container and its network, labelled; [`RunningProxy::close`] removes them.
#[derive(Debug)]
pub(crate) struct RunningProxy {
    orders: mpsc::Sender<Order>,
    shield: watch::Receiver<ShieldState>,
    ended: watch::Receiver<Option<String>>,
    policy: Arc<PolicyInForce>,
    resources: EgressResources,
    handle: Handle,
    /// Streams to the host end with it.
    _relay: Option<Relay>,
}

impl RunningProxy {
    /// A proxy that serves with the initial policy, and its questions.
    pub(super) fn new(
        channel: ChannelHandle,
        handle: Handle,
        relay: Option<Relay>,
        resources: EgressResources,
        policy: Allowlist,
    ) -> (Self, mpsc::UnboundedReceiver<Record>) {
        let ChannelHandle { orders, shield, questions, ended } = channel;
        let policy =
            Arc::new(PolicyInForce { setting: tokio::sync::Mutex::default(), policy: policy.into() });
        (Self { orders, shield, ended, policy, resources, handle, _relay: relay }, questions)
    }

    /// The control of the proxy while it serves. It does not keep the proxy alive.
    pub(crate) fn control(&self) -> ProxyControl {
        let policy = Arc::clone(&self.policy);
        ProxyControl { orders: self.orders.downgrade(), shield: self.shield.clone(), policy }
    }

    /// Ends the proxy and removes its container and its network. The task's container must be
    /// removed before.
    pub(crate) async fn close(self) -> Result<(), ProxyError> {
        self.end().await.0.remove().await
    }

    /// Ends the proxy: all its records are stored. Returns its objects, which are to be removed, and
    /// its handle: the end of its output may be that of the engine's service.
    pub(crate) async fn end(self) -> (EgressResources, Handle) {
        let Self { orders, mut ended, resources, handle, _relay, .. } = self;
        drop(orders);
        // After the timeout the container is killed; the last records of a proxy that hangs are
        // lost.
        let _ = timeout(END, ended.wait_for(Option::is_some)).await;
        (resources, handle)
    }
}

/// Live control of a proxy. Each command returns once its change is in force and logged.
#[derive(Debug, Clone)]
pub(crate) struct ProxyControl {
    orders: mpsc::WeakSender<Order>,
    shield: watch::Receiver<ShieldState>,
    policy: Arc<PolicyInForce>,
}

#[cfg(test)]
impl ProxyControl {
    /// The control of a proxy that is gone.
    pub(super) fn disconnected() -> Self {
        Self::connected().0
    }

    /// A control, the receiver of its orders, and the sender of the proxy's reports.
    pub(super) fn connected() -> (Self, mpsc::Sender<Order>, mpsc::Receiver<Order>, watch::Sender<ShieldState>)
    {
        let (orders, received) = mpsc::channel(4);
        let (report, shield) = watch::channel(ShieldState::Up);
        (Self { orders: orders.downgrade(), shield, policy: Arc::default() }, orders, received, report)
    }
}

#[cfg(test)]
impl Order {
    /// Confirms a change, as the proxy does.
    pub(super) fn confirm(self, state: ShieldState) {
        let Answer::State(confirmed) = self.answer else { panic!("not a change") };
        confirmed.send(state).unwrap();
    }
}

/// The policy that was set last.
#[derive(Debug, Default)]
struct PolicyInForce {
    /// Held while one is set, so that the stored policy is the last one.
    setting: tokio::sync::Mutex<()>,
    /// Locked for single operations only.
    policy: Mutex<Allowlist>,
}

impl ProxyControl {
    /// Puts `policy` in force from the next request on, or once the shield is raised, within the
    /// outer policies of the one before. No policy ends a quarantine.
    pub(crate) async fn set_policy(&self, policy: Allowlist) -> Result<(), ProxyError> {
        let _one_at_a_time = self.policy.setting.lock().await;
        let outer = self.policy().outer().to_vec();
        self.replace_policy(policy.within_all(outer)).await
    }

    /// Changes a rule of the policy in force.
    pub(crate) async fn change_rule(&self, change: &RuleChange) -> Result<(), ProxyError> {
        let _one_at_a_time = self.policy.setting.lock().await;
        self.replace_policy(change.applied_to(self.policy())).await
    }

    /// Adds `rule` to the policy in force, as the answer to `question` by `by`.
    pub(crate) async fn answer_with_rule(
        &self,
        question: u64,
        verdict: Verdict,
        by: String,
        rule: Rule,
    ) -> Result<(), ProxyError> {
        let _one_at_a_time = self.policy.setting.lock().await;
        let policy = self.policy().with_rules([rule]);
        let next = Some(policy.clone());
        self.unless_quarantined(Command::Answer { question, verdict, by, policy: next }).await?;
        self.keep_policy(policy);
        Ok(())
    }

    /// The policy in force, or the one that takes effect once the shield is raised.
    pub(crate) fn policy(&self) -> Allowlist {
        self.policy.policy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers a question of the proxy.
    pub(crate) async fn answer(&self, question: u64, verdict: Verdict, by: String) -> Result<(), ProxyError> {
        let orders = self.orders.upgrade().ok_or(ProxyError::ProxyGone)?;
        let order =
            Order { command: Command::Answer { question, verdict, by, policy: None }, answer: Answer::None };
        orders.send(order).await.map_err(|_| ProxyError::ProxyGone)
    }

    async fn replace_policy(&self, policy: Allowlist) -> Result<(), ProxyError> {
        self.unless_quarantined(Command::SetPolicy { policy: policy.clone() }).await?;
        self.keep_policy(policy);
        Ok(())
    }

    fn keep_policy(&self, policy: Allowlist) {
        *self.policy.policy.lock().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// Replaces the real values behind the surrogates, from the next request on.
    pub(crate) async fn set_replacements(&self, replacements: SecretReplacements) -> Result<(), ProxyError> {
        let replacements = ReplacementMap(replacements);
        self.unless_quarantined(Command::SetReplacements { replacements }).await
    }

    /// Permits every public host for `time`.
    pub(crate) async fn shield_down(&self, time: Duration) -> Result<(), ProxyError> {
        // Less than a millisecond is zero.
        let for_ms = u64::try_from(time.as_millis()).ok().filter(|ms| (1..=LONGEST_DOWN_MS).contains(ms));
        let for_ms = for_ms.ok_or(ProxyError::ShieldTime { asked: time })?;
        self.unless_quarantined(Command::Down { for_ms }).await
    }

    /// Restores the policy before the time is over.
    pub(crate) async fn shield_up(&self) -> Result<(), ProxyError> {
        self.unless_quarantined(Command::Up {}).await
    }

    /// Refuses everything from now on.
    pub(crate) async fn quarantine(&self) -> Result<(), ProxyError> {
        self.confirmed(Command::Quarantine {}).await.map(drop)
    }

    /// The traffic so far.
    pub(crate) async fn traffic(&self) -> Result<Traffic, ProxyError> {
        let (reported, report) = oneshot::channel();
        self.answered(Order { command: Command::Report {}, answer: Answer::Traffic(reported) }, report).await
    }

    /// The state that the proxy reported last.
    pub(crate) fn shield_state(&self) -> Result<ShieldState, ProxyError> {
        self.orders.upgrade().ok_or(ProxyError::ProxyGone)?;
        Ok(*self.shield.borrow())
    }

    async fn unless_quarantined(&self, command: Command) -> Result<(), ProxyError> {
        if *self.shield.borrow() == ShieldState::Quarantined {
            return Err(ProxyError::Quarantined);
        }
        match self.confirmed(command).await? {
            ShieldState::Quarantined => Err(ProxyError::Quarantined),
            ShieldState::Up | ShieldState::Down { .. } => Ok(()),
        }
    }

    /// Sends `command`, and returns the resulting state.
    async fn confirmed(&self, command: Command) -> Result<ShieldState, ProxyError> {
        let (confirmed, confirmation) = oneshot::channel();
        self.answered(Order { command, answer: Answer::State(confirmed) }, confirmation).await
    }

    /// Sends `order`, and returns its answer.
    async fn answered<T>(&self, order: Order, answer: oneshot::Receiver<T>) -> Result<T, ProxyError> {
        let given = async {
            // Held no longer than this: otherwise the proxy would outlive its owner.
            let orders = self.orders.upgrade().ok_or(ProxyError::ProxyGone)?;
            orders.send(order).await.map_err(|_| ProxyError::ProxyGone)
        };
        let work = async {
            given.await?;
            answer.await.map_err(|_| ProxyError::ProxyGone)
        };
        timeout(CONFIRMATION, work).await.unwrap_or(Err(ProxyError::Unconfirmed { within: CONFIRMATION }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn change_returns_when_confirmed_and_a_quarantine_is_irreversible() {
        let (control, orders, mut received, report) = ProxyControl::connected();
        let mut setting = std::pin::pin!(control.set_policy(Allowlist::default()));
        let order = tokio::select! {
            _ = &mut setting => panic!("it was not confirmed"),
            order = received.recv() => order.unwrap(),
        };
        assert!(matches!(order.command, Command::SetPolicy { .. }));
        order.confirm(ShieldState::Up);
        setting.await.unwrap();

        // The change applies to the policy at that time, not to the earlier one.
        let rule = |text: &str| text.parse::<Rule>().unwrap();
        let (first, second) = (rule("first.test"), rule("second.test"));
        let setting = control.set_policy(Allowlist::new([first.clone(), second.clone()]));
        let change = RuleChange::Deny(second.clone());
        let changing = control.change_rule(&change);
        let confirming = async {
            for _ in 0..2 {
                received.recv().await.unwrap().confirm(ShieldState::Up);
            }
        };
        let (set, changed, ()) = tokio::join!(setting, changing, confirming);
        assert!(set.is_ok() && changed.is_ok());
        assert_eq!(control.policy(), Allowlist::new([first, second.clone()]).denying(&second));

        // A quarantine may begin while another command is being sent.
        let proxy = async {
            let order = received.recv().await.unwrap();
            assert!(matches!(order.command, Command::Down { for_ms: 5000 }));
            report.send_replace(ShieldState::Quarantined);
            order.confirm(ShieldState::Quarantined);
        };
        let (lowered, ()) = tokio::join!(control.shield_down(Duration::from_secs(5)), proxy);
        assert!(matches!(lowered, Err(ProxyError::Quarantined)), "{lowered:?}");
        assert_eq!(control.shield_state().unwrap(), ShieldState::Quarantined);
        for refused in [control.set_policy(Allowlist::default()).await, control.shield_up().await] {
            assert!(matches!(refused, Err(ProxyError::Quarantined)), "{refused:?}");
        }
        assert!(received.try_recv().is_err(), "nothing was asked");
        drop(orders);
        assert!(matches!(control.shield_state(), Err(ProxyError::ProxyGone)));
        assert!(matches!(control.quarantine().await, Err(ProxyError::ProxyGone)));
    }

    #[tokio::test(start_paused = true)]
    async fn unconfirmed_change_is_an_error() {
        let (control, _orders, mut received, _report) = ProxyControl::connected();
        let lost = control.quarantine().await;
        assert!(matches!(lost, Err(ProxyError::Unconfirmed { .. })), "{lost:?}");
        let (ended, ()) = tokio::join!(control.shield_up(), async {
            received.recv().await.unwrap();
            drop(received.recv().await);
        });
        assert!(matches!(ended, Err(ProxyError::ProxyGone)), "{ended:?}");
        for time in [Duration::ZERO, Duration::from_micros(1), Duration::from_secs(86_401), Duration::MAX] {
            let refused = control.shield_down(time).await;
            assert!(matches!(refused, Err(ProxyError::ShieldTime { .. })), "{refused:?}");
        }
    }
}
