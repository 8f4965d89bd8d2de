//! The questions of a run that wait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allowlist::Rule;
use sandbox::network::{Answer, Question, Verdict};
use tokio::sync::{oneshot, watch};

use crate::failure::Failure;

/// The questions of a run that wait, oldest first.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Inner>);

struct Inner {
    /// Held while a file is changed, never over an await.
    open: Mutex<BTreeMap<u64, Open>>,
    /// How often a question came or went.
    changes: watch::Sender<u64>,
    /// Held by who writes to the terminal: from before output of the task until it is there, from
    /// before a question until it is over.
    screen: tokio::sync::Mutex<()>,
    keep: Box<Keep>,
}

#[derive(Debug)]
struct Open {
    question: Question,
    answer: oneshot::Sender<Answer>,
}

/// The right to write to the terminal.
pub(crate) type ScreenGuard<'a> = tokio::sync::MutexGuard<'a, ()>;

/// Keeps a rule for later runs.
type Keep = dyn Fn(&Rule) + Send + Sync;

/// Takes a question off the board when it is over.
struct OnBoard<'a> {
    board: &'a Board,
    id: u64,
}

impl Board {
    /// An empty one. `keep` is called with the rule of each question that is answered with always.
    pub(crate) fn new(keep: impl Fn(&Rule) + Send + Sync + 'static) -> Self {
        let (changes, screen) = (watch::Sender::new(0), tokio::sync::Mutex::default());
        Self(Arc::new(Inner { open: Mutex::default(), changes, screen, keep: Box::new(keep) }))
    }

    /// Waits for the answer. To stop waiting withdraws the question.
    pub(crate) async fn ask(self, question: Question) -> Answer {
        let id = question.id;
        let (answer, answered) = oneshot::channel();
        self.open().insert(id, Open { question, answer });
        let _on_board = OnBoard { board: &self, id };
        self.0.changes.send_modify(|changes| *changes += 1);
        answered.await.unwrap_or(Answer::new(Verdict::No, "sandbox"))
    }

    /// What waits, oldest first.
    pub(crate) fn questions(&self) -> Vec<Question> {
        self.open().values().map(|open| open.question.clone()).collect()
    }

    /// Answers a question, and keeps the rule that its answer adds.
    ///
    /// # Errors
    ///
    /// When it does not wait any more.
    pub(crate) fn answer(&self, id: u64, verdict: Verdict, by: &str) -> Result<(), Failure> {
        let mut open = self.open();
        let Some(Open { question, answer }) = open.remove(&id) else {
            return Err(Failure::new(format!("question {id} does not wait for an answer any more")));
        };
        if verdict == Verdict::Always {
            (self.0.keep)(&question.rule);
        }
        drop(open);
        // One that was withdrawn a moment ago needs none.
        let _ = answer.send(Answer::new(verdict, by));
        Ok(())
    }

    /// The right to write to the terminal, once no one else has it.
    pub(crate) async fn screen(&self) -> ScreenGuard<'_> {
        self.0.screen.lock().await
    }

    /// The same; `None` where someone has it.
    pub(crate) fn try_screen(&self) -> Option<ScreenGuard<'_>> {
        self.0.screen.try_lock().ok()
    }

    /// Returns once a question waits.
    pub(super) async fn is_asked(&self) {
        let mut changes = self.0.changes.subscribe();
        while self.open().is_empty() {
            let _ = changes.changed().await;
        }
    }

    /// Returns when question `id` does not wait any more.
    pub(super) async fn over(&self, id: u64) {
        let mut changes = self.0.changes.subscribe();
        while self.open().contains_key(&id) {
            let _ = changes.changed().await;
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Open>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Drop for OnBoard<'_> {
    fn drop(&mut self) {
        self.board.open().remove(&self.id);
        self.board.0.changes.send_modify(|changes| *changes += 1);
    }
}
