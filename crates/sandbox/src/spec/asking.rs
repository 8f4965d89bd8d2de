//! The callback that decides about requests that no rule permits.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use allowlist::Rule;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sandbox_proxy_protocol::Verdict;

/// A request that waits for an answer. Its texts come from the task and are untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// Counts from 1 in one execution; the network log uses the same id.
    pub id: u64,
    /// The HTTP method.
    pub method: String,
    /// The full URL, with its query. Characters other than printable ASCII are escaped as in the
    /// network log; names are as they are resolved.
    pub url: String,
    /// The rule that [`Verdict::Run`] and [`Verdict::Always`] add, for this method, path and query.
    pub rule: Rule,
    /// When it was asked.
    pub asked: SystemTime,
    /// When the request is refused without an answer.
    pub until: SystemTime,
}

impl Question {
    /// For tests of callbacks.
    #[must_use]
    pub fn new(
        id: u64,
        method: String,
        url: String,
        rule: Rule,
        asked: SystemTime,
        until: SystemTime,
    ) -> Self {
        Self { id, method, url, rule, asked, until }
    }
}

/// A verdict, and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) verdict: Verdict,
    pub(crate) by: String,
}

impl Answer {
    /// `by` is for the network log, which keeps its first 512 bytes.
    pub fn new(verdict: Verdict, by: impl Into<String>) -> Self {
        Self { verdict, by: by.into() }
    }
}

impl From<Verdict> for Answer {
    /// Given by `callback`.
    fn from(verdict: Verdict) -> Self {
        Self::new(verdict, "callback")
    }
}

/// Who is asked, and how long a request waits.
#[derive(Clone)]
pub(crate) struct Asking {
    callback: Arc<dyn Fn(Question) -> BoxFuture<'static, Answer> + Send + Sync>,
    pub(crate) time: Duration,
}

impl Asking {
    pub(super) fn new<F, A>(callback: F, time: Duration) -> Self
    where
        F: Fn(Question) -> A + Send + Sync + 'static,
        A: Future<Output: Into<Answer>> + Send + 'static,
    {
        let callback = Arc::new(move |question| callback(question).map(Into::into).boxed());
        Self { callback, time }
    }

    /// How long a request waits.
    pub(crate) fn milliseconds(&self) -> u64 {
        u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX)
    }

    /// Calls the callback.
    pub(crate) fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        (self.callback)(question)
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("time", &self.time).finish_non_exhaustive()
    }
}

impl PartialEq for Asking {
    /// Whether both use the same callback.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.callback, &other.callback) && self.time == other.time
    }
}
