//! Questions to the operator: which requests wait for an answer, and which are refused without one.
//!
//! Invariant: a task's requests cost the operator a bounded number of questions, whatever the task
//! does.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allowlist::{Form, Request, Scheme};
use sandbox_proxy_protocol::{Event, Limits, OpenRequest, Verdict};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::record::Recorder;

/// The window of [`Limits::questions_per_minute`].
const WINDOW: Duration = Duration::from_mins(1);
/// How many requests may wait at the same time for each question that may be open: equal requests
/// share one.
const SHARERS: usize = 4;
/// How many hosts with refusals are remembered; once there are so many, no more questions are
/// asked.
const REMEMBERED: usize = 1024;

/// How many questions about a host may end with no, or without an answer in time; after that, no
/// more are asked about it.
const REFUSALS: u32 = 5;

/// The reason why a request is refused without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unasked {
    /// The operator refused this path before, or its host too often.
    #[error("the operator was asked and did not allow it")]
    Answered,
    /// One of the limits was reached.
    #[error("the operator was not asked: too many requests are waiting, or waited, for an answer")]
    TooMany,
    /// An answer would cover only the request.
    #[error("the operator is not asked about WebSockets, which continue after the request")]
    WebSocket,
    /// The operator would not see exactly what was requested.
    #[error("the operator was not asked: the request is too long to be shown, or is not text")]
    NotShown,
}

/// The questions of one task.
#[derive(Debug)]
pub(crate) struct Questions {
    /// How long a question waits; `None` if nothing is asked.
    time: Option<Duration>,
    most: usize,
    per_minute: usize,
    recorder: Recorder,
    /// Held for a few instructions, never over an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    open: HashMap<Subject, Open>,
    /// The number of waiting requests, including those that share a question.
    waiting: usize,
    /// When the questions of the last minute were asked.
    asked: VecDeque<Instant>,
    /// Hosts and paths that the operator refused.
    refused: HashSet<(String, String)>,
    /// How often each host was refused, including for lack of an answer.
    hosts: HashMap<String, u32>,
}

/// Requests with the same subject are equal: they share a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Subject {
    scheme: Scheme,
    method: String,
    host: String,
    path: String,
}

#[derive(Debug)]
struct Open {
    question: u64,
    until: Instant,
    verdict: watch::Sender<Option<Verdict>>,
}

/// A waiting request. Dropping it withdraws the question if the question is about this very
/// request.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    questions: &'a Questions,
    subject: Subject,
    question: u64,
    /// The question is about this request; others that share it may differ in their queries and
    /// bodies.
    leads: bool,
    until: Instant,
    verdict: watch::Receiver<Option<Verdict>>,
}

impl Questions {
    /// Nothing is asked yet.
    pub(crate) fn new(limits: &Limits, recorder: Recorder) -> Self {
        Self {
            time: limits.question_timeout_ms.map(Duration::from_millis),
            most: limits.questions,
            per_minute: usize::try_from(limits.questions_per_minute).unwrap_or(usize::MAX),
            recorder,
            state: Mutex::default(),
        }
    }

    /// Whether questions are enabled.
    pub(crate) fn is_on(&self) -> bool {
        self.time.is_some()
    }

    /// Asks whether `request` may pass, or waits along with equal requests. `is_recordable` takes
    /// the space that a question needs in the log.
    ///
    /// # Errors
    ///
    /// The reason why it is refused without a question.
    pub(crate) fn ask(
        &self,
        request: &Request,
        is_recordable: impl FnOnce() -> bool,
    ) -> Result<Waiting<'_>, Unasked> {
        if request.form() == Form::WebSocket {
            return Err(Unasked::WebSocket);
        }
        let subject = Subject {
            scheme: request.scheme(),
            method: request.method().as_str().to_owned(),
            host: request.host().to_string(),
            path: request.target().path().to_owned(),
        };
        let mut state = self.state();
        let is_refused = state.refused.contains(&(subject.host.clone(), subject.path.clone()));
        if is_refused || state.hosts.get(&subject.host).is_some_and(|refusals| *refusals >= REFUSALS) {
            return Err(Unasked::Answered);
        }
        let now = Instant::now();
        let Some(until) = self.time.and_then(|time| now.checked_add(time)) else {
            return Err(Unasked::TooMany);
        };
        // Bounded here, so that a flood of equal requests, which asks no further questions, cannot
        // hold memory either.
        if state.waiting >= self.most.saturating_mul(SHARERS) || state.hosts.len() >= REMEMBERED {
            return Err(Unasked::TooMany);
        }
        if let Some(open) = state.open.get(&subject) {
            let (question, until, verdict) = (open.question, open.until, open.verdict.subscribe());
            state.waiting += 1;
            return Ok(Waiting { questions: self, subject, question, leads: false, until, verdict });
        }
        // The operator is shown exactly what is requested.
        let target =
            std::str::from_utf8(request.target().as_received()).map_err(|_| Unasked::NotShown)?.to_owned();
        while state.asked.front().is_some_and(|asked| now.saturating_duration_since(*asked) >= WINDOW) {
            state.asked.pop_front();
        }
        let question = state.last + 1;
        let open = OpenRequest {
            method: subject.method.clone(),
            scheme: subject.scheme,
            host: subject.host.clone(),
            target,
        };
        if !open.is_short() {
            return Err(Unasked::NotShown);
        }
        if state.open.len() >= self.most
            || state.asked.len() >= self.per_minute
            || !is_recordable()
            || self.recorder.try_record(Event::Asked { question, request: open }).is_err()
        {
            return Err(Unasked::TooMany);
        }
        state.last = question;
        state.waiting += 1;
        state.asked.push_back(now);
        let (sender, verdict) = watch::channel(None);
        state.open.insert(subject.clone(), Open { question, until, verdict: sender });
        Ok(Waiting { questions: self, subject, question, leads: true, until, verdict })
    }

    /// Records the operator's answer; a closed question stays closed. `set` applies the policy that
    /// belongs to the answer, under the lock: a request that this policy permits finds its question
    /// answered.
    pub(crate) fn answer(&self, question: u64, verdict: Verdict, by: String, set: impl FnOnce()) {
        let mut state = self.state();
        set();
        let subject = state.open.iter().find(|(_, open)| open.question == question);
        let Some(subject) = subject.map(|(subject, _)| subject.clone()) else {
            return;
        };
        if verdict == Verdict::No {
            state.refused.insert((subject.host.clone(), subject.path.clone()));
        }
        self.close(&mut state, &subject, question, Some(verdict), by);
    }

    fn close(
        &self,
        state: &mut State,
        subject: &Subject,
        question: u64,
        verdict: Option<Verdict>,
        by: String,
    ) {
        if state.open.get(subject).is_none_or(|open| open.question != question) {
            return;
        }
        if let Some(open) = state.open.remove(subject) {
            if verdict == Some(Verdict::No) {
                *state.hosts.entry(subject.host.clone()).or_default() += 1;
            }
            open.verdict.send_replace(verdict);
            if self.recorder.try_record(Event::Answered { question, verdict, by }).is_err() {
                tracing::warn!(question, "failed to record an answer");
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting<'_> {
    /// The question's number.
    pub(crate) fn question(&self) -> u64 {
        self.question
    }

    /// Whether the question is about this very request.
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// The answer, which is no once the time is over; `None` if the question was withdrawn, which
    /// means nothing for this request.
    pub(crate) async fn verdict(&mut self) -> Option<Verdict> {
        let in_time = tokio::select! {
            // An answer that came in time counts.
            biased;
            verdict = self.verdict.wait_for(Option::is_some) => Some(verdict.ok().and_then(|verdict| *verdict)),
            // tidy: sleep: the end of the time that an operator has
            () = sleep_until(self.until) => None,
        };
        in_time.unwrap_or_else(|| {
            self.close(Some(Verdict::No), "time");
            // The operator may have answered a moment earlier.
            self.verdict.borrow().or(Some(Verdict::No))
        })
    }

    /// Closes the question: the policy has decided, so the request no longer needs an answer.
    pub(crate) fn settle(self) {
        self.close(None, "policy");
    }

    fn close(&self, verdict: Option<Verdict>, by: &str) {
        let mut state = self.questions.state();
        self.questions.close(&mut state, &self.subject, self.question, verdict, by.to_owned());
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.leads {
            self.close(None, "client");
        }
        self.questions.state().waiting -= 1;
    }
}
