//! Timers for a silent agent: the grace period after its result, and the stall time.

use std::ops::ControlFlow;
use std::time::Duration;

use claude_output::{EventKind, StreamEvent};
use sandbox_agents::Ended;
use tokio::time::Instant;

use crate::spec::{OnStall, Stall};

use super::messages::LastMessage;

/// The longest interval between checks whether messages may still come.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The timers of one execution.
#[derive(Debug)]
pub(super) struct Watchdog {
    grace: Option<Duration>,
    stall: Option<Stall>,
    /// When the last event came, initially when the agent was started; `None` before.
    last_event: Option<Instant>,
    /// When the result came, unless another turn has started since.
    answered: Option<Instant>,
    /// Whether this silence was reported.
    is_reported: bool,
    /// Set if the caller may send messages.
    last_message: Option<LastMessage>,
}

/// The action on a silence.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Alarm {
    /// The length of the silence, if it must be reported.
    pub(super) silent: Option<Duration>,
    pub(super) then: ControlFlow<Ended>,
}

impl Watchdog {
    pub(super) fn new(grace: Option<Duration>, stall: Option<Stall>) -> Self {
        Self { grace, stall, last_event: None, answered: None, is_reported: false, last_message: None }
    }

    /// Waits for messages too: a result is not the end while more of them may come.
    pub(super) fn with_messages(self, last: LastMessage) -> Self {
        Self { last_message: Some(last), ..self }
    }

    /// Whether messages may still come.
    fn is_open(&self) -> bool {
        self.last_message.as_ref().is_some_and(|last| last.get().is_none())
    }

    /// Since when Claude Code could have ended: there is a result, and no message follows it.
    fn done(&self) -> Option<Instant> {
        let answered = self.answered.filter(|_| !self.is_open())?;
        let last = self.last_message.as_ref().and_then(|last| last.get().copied());
        Some(last.map_or(answered, |last| last.max(answered)))
    }

    /// Records output until `now`.
    pub(super) fn on_output(&mut self, now: Instant) {
        self.last_event = Some(now);
        self.is_reported = false;
    }

    /// Records an event until `now`.
    pub(super) fn on_event(&mut self, event: &StreamEvent, now: Instant) {
        self.on_output(now);
        match event.kind() {
            EventKind::Result(_) => self.answered = Some(now),
            EventKind::Assistant(_) | EventKind::User(_) => self.answered = None,
            // Another turn starts, or waits for the API.
            EventKind::System(system) if system.init.is_some() || system.retry.is_some() => {
                self.answered = None;
            }
            _ => {}
        }
    }

    /// The reader took events from `began` until `now`; Claude Code may have waited meanwhile.
    pub(super) fn waited(&mut self, began: Instant, now: Instant) {
        let waited = now.saturating_duration_since(began);
        let later = |time: Instant| time.checked_add(waited).unwrap_or(now);
        self.last_event = self.last_event.map(later);
        self.answered = self.answered.map(later);
    }

    /// Whether silence is expected: there is a result, and the grace after it ends the execution,
    /// or the caller's next message is awaited.
    fn may_be_silent(&self) -> bool {
        self.answered.is_some() && (self.grace.is_some() || self.is_open())
    }

    /// When to call [`Self::wake`]. The first call starts the clock, at `now`.
    pub(super) fn deadline(&mut self, now: Instant) -> Option<Instant> {
        let last_event = *self.last_event.get_or_insert(now);
        // While messages may come, it is checked again after that time: nothing signals the last
        // one.
        let done = if self.is_open() { self.answered.map(|_| now) } else { self.done() };
        let least = if self.is_open() { POLL_INTERVAL } else { Duration::ZERO };
        let grace = self.grace.zip(done).and_then(|(grace, done)| done.checked_add(grace.max(least)));
        let stall = self.stall.filter(|_| !self.is_reported && !self.may_be_silent());
        let stall = stall.and_then(|stall| last_event.checked_add(stall.after));
        grace.into_iter().chain(stall).min()
    }

    /// The action that is due at `now`.
    pub(super) fn wake(&mut self, now: Instant) -> Alarm {
        let is_over = |since: Option<Instant>, time: Duration| {
            since.is_some_and(|since| now.saturating_duration_since(since) >= time)
        };
        if self.grace.is_some_and(|grace| is_over(self.done(), grace)) {
            return Alarm { silent: None, then: ControlFlow::Break(Ended::Answered) };
        }
        match self.stall {
            Some(stall)
                if !self.is_reported && !self.may_be_silent() && is_over(self.last_event, stall.after) =>
            {
                self.is_reported = true;
                let then = match stall.then {
                    OnStall::Report => ControlFlow::Continue(()),
                    OnStall::Stop => ControlFlow::Break(Ended::Stalled(stall.after)),
                };
                Alarm { silent: Some(stall.after), then }
            }
            _ => Alarm { silent: None, then: ControlFlow::Continue(()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use claude_output::parse_event;

    use super::*;

    const GRACE: Duration = Duration::from_secs(30);
    const STALL: Duration = Duration::from_mins(15);

    fn event(kind: &str) -> StreamEvent {
        parse_event(&format!(r#"{{"type":"{kind}"}}"#)).unwrap()
    }

    fn watchdog(then: OnStall) -> Watchdog {
        Watchdog::new(Some(GRACE), Some(Stall { after: STALL, then }))
    }

    #[test]
    fn grace_after_a_result_ends_when_another_turn_starts() {
        let (mut watchdog, start) = (watchdog(OnStall::Report), Instant::now());
        let second = |seconds: u64| start + Duration::from_secs(seconds);
        watchdog.on_event(&event("result"), second(10));
        assert_eq!(watchdog.deadline(second(10)), Some(second(40)));
        watchdog.on_event(&event("system"), second(20));
        assert_eq!(watchdog.deadline(second(20)), Some(second(40)), "the end of a hook, for example");
        assert_eq!(watchdog.wake(second(39)).then, ControlFlow::Continue(()));
        assert_eq!(watchdog.wake(second(40)).then, ControlFlow::Break(Ended::Answered));
        watchdog.on_event(&event("user"), second(41));
        assert_eq!(watchdog.wake(second(80)).then, ControlFlow::Continue(()));
        watchdog.on_event(&event("result"), second(90));
        assert_eq!(watchdog.deadline(second(90)), Some(second(120)));
        watchdog.waited(second(91), second(101));
        assert_eq!(watchdog.deadline(second(101)), Some(second(130)), "its reader was slow");

        let mut without = Watchdog::new(None, None);
        without.on_event(&event("result"), start);
        assert_eq!(without.deadline(start), None);
    }

    #[test]
    fn result_is_not_the_end_while_messages_may_come() {
        let last = LastMessage::default();
        let (watchdog, start) = (watchdog(OnStall::Stop), Instant::now());
        let mut watchdog = watchdog.with_messages(std::sync::Arc::clone(&last));
        watchdog.on_event(&event("result"), start);
        let late = start + 2 * STALL;
        assert_eq!(watchdog.wake(late).then, ControlFlow::Continue(()), "neither grace nor stall");
        assert_eq!(watchdog.deadline(late), Some(late + GRACE), "checked again");
        last.set(late).unwrap();
        assert_eq!(watchdog.deadline(late), Some(late + GRACE));
        assert_eq!(watchdog.wake(late).then, ControlFlow::Continue(()), "the grace begins now");
        assert_eq!(watchdog.wake(late + GRACE).then, ControlFlow::Break(Ended::Answered));
    }

    #[test]
    fn deadline_without_a_grace_is_not_immediate() {
        let (mut watchdog, start) = (Watchdog::new(Some(Duration::ZERO), None), Instant::now());
        watchdog.on_event(&event("result"), start);
        assert_eq!(watchdog.deadline(start), Some(start));
        let mut open = watchdog.with_messages(LastMessage::default());
        assert_eq!(open.deadline(start), Some(start + POLL_INTERVAL));
    }

    #[test]
    fn silence_is_reported_once_and_ends_the_agent_on_request() {
        for then in [OnStall::Report, OnStall::Stop] {
            let (mut watchdog, start) = (watchdog(then), Instant::now());
            assert_eq!(watchdog.deadline(start), Some(start + STALL));
            assert_eq!(watchdog.deadline(start + GRACE), Some(start + STALL), "the clock runs");
            watchdog.on_event(&event("system"), start + GRACE);
            let due = start + GRACE + STALL;
            assert_eq!(watchdog.deadline(start + GRACE), Some(due));
            let nothing = Alarm { silent: None, then: ControlFlow::Continue(()) };
            assert_eq!(watchdog.wake(start + STALL), nothing);
            let alarm = watchdog.wake(due);
            assert_eq!(alarm.silent, Some(STALL));
            assert_eq!(alarm.then.is_break(), then == OnStall::Stop);
            assert_eq!((watchdog.deadline(due), watchdog.wake(due + STALL)), (None, nothing));
            watchdog.on_event(&event("system"), due + GRACE);
            assert_eq!(watchdog.deadline(due), Some(due + GRACE + STALL), "another silence");
        }
    }
}
