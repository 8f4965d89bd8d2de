//! The pending questions of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allowlist::Rule;
use sandbox::network::{Answer, Question, Verdict};
use tokio::sync::{oneshot, watch};

use super::program::{self, AskProgram};
use crate::failure::Failure;

/// The pending questions of a run, oldest first.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Inner>);

struct Inner {
    /// Locked for single operations only.
    open: Mutex<BTreeMap<u64, Open>>,
    /// Changes when a question arrives or ends.
    changes: watch::Sender<u64>,
    /// Locked while something writes to the terminal: during output of the task, and during a
    /// question.
    screen: tokio::sync::Mutex<()>,
    /// Locked while a file is changed.
    keep: Mutex<Box<Keep>>,
    program: Option<AskProgram>,
}

#[derive(Debug)]
struct Open {
    question: Question,
    answer: oneshot::Sender<Answer>,
    /// Whether the program may still answer it. Until then the terminal does not show it.
    at_program: bool,
}

/// The right to write to the terminal.
pub(crate) type ScreenGuard<'a> = tokio::sync::MutexGuard<'a, ()>;

/// Keeps a rule for later runs.
type Keep = dyn Fn(&Rule) + Send;

/// Removes a question from the board when dropped.
struct OnBoard<'a> {
    board: &'a Board,
    id: u64,
}

impl Board {
    /// An empty board. `keep` is called with the rule of each question that is answered with
    /// always. `program` is asked as well.
    pub(crate) fn new(keep: impl Fn(&Rule) + Send + 'static, program: Option<AskProgram>) -> Self {
        let (changes, screen) = (watch::Sender::new(0), tokio::sync::Mutex::default());
        let keep: Mutex<Box<Keep>> = Mutex::new(Box::new(keep));
        Self(Arc::new(Inner { open: Mutex::default(), changes, screen, keep, program }))
    }

    /// Sets the id of the run, before its first question.
    pub(crate) fn begin(&self, run: &str) {
        if let Some(program) = &self.0.program {
            program.begin(run);
        }
    }

    /// Whether a program is asked.
    pub(super) fn has_program(&self) -> bool {
        self.0.program.is_some()
    }

    /// Waits for the answer. Dropping the future withdraws the question.
    pub(crate) async fn ask(self, question: Question) -> Answer {
        let id = question.id;
        let (answer, mut answered) = oneshot::channel();
        let asked = question.clone();
        self.open().insert(id, Open { question, answer, at_program: self.has_program() });
        let _on_board = OnBoard { board: &self, id };
        self.0.changes.send_modify(|changes| *changes += 1);
        let answer = tokio::select! {
            answer = &mut answered => answer,
            () = self.ask_program(&asked) => answered.await,
        };
        answer.unwrap_or(Answer::new(Verdict::No, "sandbox"))
    }

    /// Returns once the program, if there is one, has answered or left it to others.
    async fn ask_program(&self, question: &Question) {
        let Some(program) = &self.0.program else { return };
        match program.verdict(question).await {
            // Another answer may have been first.
            Ok(Some(verdict)) => drop(self.answer(question.id, verdict, program::BY)),
            Ok(None) => {}
            Err(problem) => {
                // Not into a question on the terminal.
                let _screen = self.screen().await;
                program.warn(&problem);
            }
        }
        if let Some(open) = self.open().get_mut(&question.id) {
            open.at_program = false;
        }
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// The pending questions, oldest first.
    pub(crate) fn questions(&self) -> Vec<Question> {
        self.open().values().map(|open| open.question.clone()).collect()
    }

    /// Answers a question, and keeps the rule that its answer adds.
    ///
    /// # Errors
    ///
    /// If it is no longer pending.
    pub(crate) fn answer(&self, id: u64, verdict: Verdict, by: &str) -> Result<(), Failure> {
        let open = self.open().remove(&id);
        let Some(Open { question, answer, .. }) = open else {
            return Err(Failure::new(format!("question {id} is no longer pending")));
        };
        if verdict == Verdict::Always {
            self.0.keep.lock().unwrap_or_else(PoisonError::into_inner)(&question.rule);
        }
        // A question that was just withdrawn needs no answer.
        let _ = answer.send(Answer::new(verdict, by));
        Ok(())
    }

    /// Waits for the right to write to the terminal.
    pub(crate) async fn screen(&self) -> ScreenGuard<'_> {
        self.0.screen.lock().await
    }

    /// The same; `None` if it is taken.
    pub(crate) fn try_screen(&self) -> Option<ScreenGuard<'_>> {
        self.0.screen.try_lock().ok()
    }

    /// The oldest question that the program left to others.
    pub(super) fn first(&self) -> Option<Question> {
        self.open().values().find(|open| !open.at_program).map(|open| open.question.clone())
    }

    /// Returns once there is a [`first`](Self::first) question.
    pub(super) async fn is_asked(&self) {
        let mut changes = self.0.changes.subscribe();
        while self.first().is_none() {
            let _ = changes.changed().await;
        }
    }

    /// Returns when question `id` is no longer pending.
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

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use allowlist::UrlRule;

    use super::*;

    #[tokio::test]
    async fn rule_is_kept_only_after_always() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeper = Arc::clone(&kept);
        let board = Board::new(move |rule| keeper.lock().unwrap().push(rule.to_yaml()), None);
        for (id, verdict) in (1..).zip([Verdict::Once, Verdict::Run, Verdict::No, Verdict::Always]) {
            let rule = Rule::Url(UrlRule::new("a.example", &format!("/{id}"), ["GET"]).unwrap());
            let (method, url) = ("GET".to_owned(), format!("https://a.example/{id}"));
            let question = Question::new(id, method, url, rule, UNIX_EPOCH, UNIX_EPOCH);
            let asking = tokio::spawn(board.clone().ask(question.clone()));
            board.is_asked().await;
            board.answer(id, verdict, "test").unwrap();
            assert_eq!(asking.await.unwrap(), Answer::new(verdict, "test"));
            assert!(board.answer(id, Verdict::Always, program::BY).is_err(), "answered before");
            let asking = tokio::spawn(board.clone().ask(question));
            board.is_asked().await;
            asking.abort();
            asking.await.unwrap_err();
            assert!(board.answer(id, Verdict::Always, program::BY).is_err(), "withdrawn");
        }
        assert_eq!(*kept.lock().unwrap(), ["{host: a.example, path: /4, methods: [GET]}"]);
    }
}
