//! The state of the screen, and how keys change it. It neither draws nor sends requests to runs.

use std::time::Instant;

use allowlist::RuleChange;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sandbox::network_event::Verdict;

use super::change::{changes_to_allow, changes_to_deny};
use super::inert::{from_network, name};
use super::row::{Mark, Row};
use super::run::{Run, Shown};
use super::seen::Seen;
use crate::control::{Question, Report};

/// The number of ended runs that are kept.
const ENDED: usize = 8;
/// The maximum length of a filter, in characters.
const FILTER: usize = 100;
/// The maximum size of a question's request and rule, in bytes. No screen shows more in full.
const ASKED: usize = 8000;
const TOO_EARLY: &str = "too early, not answered: read the question and press the key again";
/// The number of lines of a page.
const PAGE: isize = 10;

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Oldest first; ended runs are kept for a while.
    pub(super) runs: Vec<Run>,
    /// The id of the run whose requests are shown.
    chosen: Option<String>,
    pub(super) shown: Shown,
    pub(super) over: Over,
    /// The result of the last key.
    pub(super) message: Option<Message>,
    seen: Seen<Asked>,
    /// In milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
}

/// The question that a key would answer.
#[derive(Debug, PartialEq)]
enum Asked {
    /// A pending request of this run.
    Question(String, Question),
    /// A confirmation.
    Order(Order),
}

/// The overlay on the lists, which gets the keys.
#[derive(Debug, Default)]
pub(super) enum Over {
    #[default]
    Nothing,
    Help,
    /// The filter is being typed.
    Filter,
    Confirmation(Confirmation),
}

/// A question to the user. Only `y` answers it with yes, once the user had time to read it.
#[derive(Debug)]
pub(super) struct Confirmation {
    pub(super) title: String,
    run: String,
    pub(super) choices: Vec<Choice>,
    pub(super) chosen: usize,
}

/// One of the possible orders.
#[derive(Debug)]
pub(super) struct Choice {
    /// The complete change, line by line.
    pub(super) lines: Vec<String>,
    /// Its consequences.
    pub(super) note: String,
    job: Job,
}

/// A line about the result of an action.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) is_bad: bool,
}

/// An effect of a key outside of the state.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    Leave,
    Interrupt,
    Suspend,
    Order(Order),
}

/// An order to a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Order {
    pub(super) run: String,
    pub(super) job: Job,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Job {
    Change { change: Box<RuleChange>, with_file: bool },
    Decide { question: u64, verdict: Verdict },
    Quarantine,
    Up,
    Stop,
}

impl State {
    /// A state that shows the run `chosen` first.
    pub(super) fn new(chosen: Option<String>) -> Self {
        Self { chosen, ..Self::default() }
    }

    /// Takes the reports of the runs that answered, and the time.
    pub(super) fn take_reports(&mut self, reports: Vec<Report>, now_ms: u64) {
        self.now_ms = now_ms;
        for run in &mut self.runs {
            if run.ended_ms.is_none() && !reports.iter().any(|report| report.run == run.report.run) {
                run.ended_ms = Some(now_ms);
                run.report.questions.clear();
            }
        }
        for report in reports {
            match self.run_mut(&report.run) {
                Some(run) => {
                    // A run that answered late has not ended.
                    run.ended_ms = None;
                    run.take_report(report);
                }
                None => self.runs.push(Run::new(report)),
            }
        }
        self.runs.sort_by_key(|run| run.report.started_ms);
        while self.runs.iter().filter(|run| run.ended_ms.is_some()).count() > ENDED {
            let Some(oldest) = self.runs.iter().position(|run| run.ended_ms.is_some()) else { break };
            self.runs.remove(oldest);
        }
        if self.chosen_run().is_none() {
            self.chosen = self.runs.last().map(|run| run.report.run.clone());
        }
    }

    /// The run with this id.
    pub(super) fn run_mut(&mut self, id: &str) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.report.run == id)
    }

    /// The run whose requests are shown.
    pub(super) fn chosen_run(&self) -> Option<&Run> {
        self.runs.get(self.chosen_at()?)
    }

    pub(super) fn chosen_at(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.runs.iter().position(|run| run.report.run == *chosen)
    }

    /// The selected line of that run.
    pub(super) fn selected(&self) -> Option<&Row> {
        let run = self.chosen_run()?;
        let rows = run.rows(&self.shown);
        rows.get(run.selected_of(&rows)?).copied()
    }

    /// The question that keys answer: the oldest of the chosen run, else of all.
    pub(super) fn question(&self) -> Option<(&Run, &Question)> {
        let of = |run| -> Option<(&Run, &Question)> { Some((run, run.report.questions.first()?)) };
        self.chosen_run()
            .and_then(of)
            .or_else(|| self.runs.iter().filter_map(of).min_by_key(|(_, question)| question.asked_ms))
    }

    /// The number of pending questions.
    pub(super) fn questions(&self) -> usize {
        self.runs.iter().map(|run| run.report.questions.len()).sum()
    }

    pub(super) fn set_message(&mut self, text: impl Into<String>, is_bad: bool) {
        self.message = Some(Message { text: text.into(), is_bad });
    }

    /// The question that a key would answer now.
    fn asked(&self) -> Option<Asked> {
        match &self.over {
            Over::Confirmation(confirmation) => {
                let choice = confirmation.choices.get(confirmation.chosen)?;
                Some(Asked::Order(Order { run: confirmation.run.clone(), job: choice.job.clone() }))
            }
            Over::Help => None,
            Over::Nothing | Over::Filter => {
                let (run, question) = self.question()?;
                Some(Asked::Question(run.report.run.clone(), question.clone()))
            }
        }
    }

    /// Records that the state was drawn; `is_whole`: with the question in full.
    pub(super) fn drawn(&mut self, is_whole: bool, at: Instant) {
        let asked = self.asked().filter(|_| is_whole);
        self.seen.drawn(asked, at);
    }

    /// Handles a key that was pressed at `at`.
    pub(super) fn press(&mut self, key: KeyEvent, at: Instant) -> Option<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Some(Effect::Interrupt),
                KeyCode::Char('z') => return Some(Effect::Suspend),
                _ => return None,
            }
        }
        self.message = None;
        let is_read = self.seen.was_read(self.asked().as_ref(), at);
        match std::mem::take(&mut self.over) {
            Over::Nothing => self.press_in_lists(key.code, is_read),
            Over::Help => None,
            Over::Filter => {
                self.type_filter(key.code);
                None
            }
            Over::Confirmation(confirmation) => self.answer(confirmation, key.code, is_read),
        }
    }

    fn press_in_lists(&mut self, key: KeyCode, is_read: bool) -> Option<Effect> {
        match key {
            KeyCode::Char('q') => return Some(Effect::Leave),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-PAGE),
            KeyCode::PageDown => self.move_by(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            KeyCode::Tab | KeyCode::Right => self.choose_next(1),
            KeyCode::BackTab | KeyCode::Left => self.choose_next(self.runs.len().saturating_sub(1)),
            KeyCode::Char('?' | 'h') => self.over = Over::Help,
            KeyCode::Char('/') => self.over = Over::Filter,
            KeyCode::Esc => self.shown = Shown::default(),
            KeyCode::Char('b') => self.shown.blocked_only = !self.shown.blocked_only,
            KeyCode::Char('1'..='4') if self.questions() > 0 && !is_read => self.set_message(TOO_EARLY, true),
            KeyCode::Char('4') if self.questions() > 0 => return self.refuse_question(),
            KeyCode::Char(key) => {
                if let Err(why) = self.confirm(key) {
                    self.set_message(why, true);
                }
            }
            _ => {}
        }
        None
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Esc => self.shown.filter.clear(),
            KeyCode::Enter => {}
            KeyCode::Backspace => {
                self.shown.filter.pop();
                self.over = Over::Filter;
            }
            KeyCode::Char(c) => {
                if self.shown.filter.chars().count() < FILTER {
                    self.shown.filter.push(c.to_ascii_lowercase());
                }
                self.over = Over::Filter;
            }
            _ => self.over = Over::Filter,
        }
    }

    fn move_by(&mut self, lines: isize) {
        let shown = self.shown.clone();
        if let Some(run) = self.chosen_at().and_then(|at| self.runs.get_mut(at)) {
            run.move_by(lines, &shown);
        }
    }

    fn choose_next(&mut self, steps: usize) {
        if let Some(at) = self.chosen_at() {
            let next = (at + steps) % self.runs.len();
            self.chosen = self.runs.get(next).map(|run| run.report.run.clone());
        }
    }

    /// Asks for confirmation of the key's action.
    fn confirm(&mut self, key: char) -> Result<(), String> {
        let confirmation = match key {
            '1' => self.decision(Verdict::Once),
            '2' => self.decision(Verdict::Run),
            '3' => self.decision(Verdict::Always),
            '4' => Err("no question is pending".to_owned()),
            'a' | 'A' => self.permission(key == 'A'),
            'd' | 'D' => self.prohibition(key == 'D'),
            'Q' => {
                self.of_run(Job::Quarantine, "Cut this run off from the network?", "This cannot be undone.")
            }
            'u' => self.of_run(
                Job::Up,
                "Raise the shield of this run?",
                "Its policy decides again about every request.",
            ),
            's' => {
                self.of_run(Job::Stop, "Stop this run?", "It gets SIGTERM, and is killed after 5 seconds.")
            }
            _ => return Ok(()),
        }?;
        self.over = Over::Confirmation(confirmation);
        Ok(())
    }

    fn decision(&self, verdict: Verdict) -> Result<Confirmation, String> {
        let (run, question) = self.question().ok_or("no question is pending")?;
        let Question { id, method, url, rule, .. } = question;
        let (title, lines, note) = if verdict == Verdict::Once {
            let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', '?']).next());
            let lines = vec![host.unwrap_or_default().to_owned(), format!("{method} {url}")];
            ("Let this request pass, once?", lines, "No other request passes for it.".to_owned())
        } else {
            let kept = file_of(run).unwrap_or_else(|| "its allowlist file".to_owned());
            let note = match verdict {
                Verdict::Always => format!("It holds for the rest of this run, and is added to {kept}."),
                _ => "It holds for the rest of this run; no file is changed.".to_owned(),
            };
            ("Let it pass, and add this rule?", vec![format!("+ {rule}")], note)
        };
        if lines.iter().map(String::len).sum::<usize>() > ASKED {
            return Err("it is too long to show: answer with no".to_owned());
        }
        Ok(Confirmation {
            title: title.to_owned(),
            run: run.report.run.clone(),
            choices: vec![Choice {
                lines: lines.iter().map(|line| from_network(line, ASKED)).collect(),
                note,
                job: Job::Decide { question: *id, verdict },
            }],
            chosen: 0,
        })
    }

    /// A refusal needs no confirmation.
    fn refuse_question(&self) -> Option<Effect> {
        let (run, question) = self.question()?;
        let job = Job::Decide { question: question.id, verdict: Verdict::No };
        Some(Effect::Order(Order { run: run.report.run.clone(), job }))
    }

    fn permission(&self, with_file: bool) -> Result<Confirmation, String> {
        let run = self.living()?;
        let row = self.selected().ok_or("no request is selected")?;
        let asked = row.asked.as_ref().filter(|_| matches!(row.mark, Mark::Blocked | Mark::ShieldDown));
        let asked = asked.ok_or("no rule applies to this line: select a request that the policy blocked")?;
        let policy = run.report.policy.as_ref().ok_or("this run has no network sandbox")?;
        let cannot = |why| format!("no rule can be made of this request: {why}");
        let changes = changes_to_allow(policy, asked).map_err(cannot)?;
        changed_rule(changes, with_file, run)
    }

    fn prohibition(&self, with_file: bool) -> Result<Confirmation, String> {
        let run = self.living()?;
        let row = self.selected().ok_or("no request is selected")?;
        let asked = row.asked.as_ref().ok_or("no rule applies to this line: select a request")?;
        let policy = run.report.policy.as_ref().ok_or("this run has no network sandbox")?;
        let changes = changes_to_deny(policy, asked).map_err(|why| format!("it cannot be denied: {why}"))?;
        changed_rule(changes, with_file, run)
    }

    fn of_run(&self, job: Job, title: &str, note: &str) -> Result<Confirmation, String> {
        let run = self.living()?;
        let line = format!("{}  {}", run.report.run, name(&run.report.program, FILTER));
        let choice = Choice { lines: vec![line], note: note.to_owned(), job };
        Ok(Confirmation {
            title: title.to_owned(),
            run: run.report.run.clone(),
            choices: vec![choice],
            chosen: 0,
        })
    }

    fn living(&self) -> Result<&Run, String> {
        let run = self.chosen_run().ok_or("no run is in progress")?;
        if run.ended_ms.is_some() { Err("this run has ended".to_owned()) } else { Ok(run) }
    }

    fn answer(&mut self, mut confirmation: Confirmation, key: KeyCode, is_read: bool) -> Option<Effect> {
        let last = confirmation.choices.len().saturating_sub(1);
        match key {
            KeyCode::Up | KeyCode::BackTab => confirmation.chosen = confirmation.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Tab => confirmation.chosen = (confirmation.chosen + 1).min(last),
            _ if !is_read && key != KeyCode::Esc => self.set_message(TOO_EARLY, true),
            KeyCode::Char('y' | 'Y') => {
                let choice = confirmation.choices.into_iter().nth(confirmation.chosen)?;
                self.set_message("working …", false);
                return Some(Effect::Order(Order { run: confirmation.run, job: choice.job }));
            }
            _ => {
                self.set_message("nothing was changed", false);
                return None;
            }
        }
        self.over = Over::Confirmation(confirmation);
        None
    }
}

/// Asks which of these changes to make.
fn changed_rule(changes: Vec<RuleChange>, with_file: bool, run: &Run) -> Result<Confirmation, String> {
    if with_file && run.report.policy_source.is_none() {
        return Err("this run reports no file of its policy: use the same key in lower case".to_owned());
    }
    let (title, sign) = match changes.first() {
        None => return Err("the rule for this request is too long to show".to_owned()),
        Some(RuleChange::Allow(_)) => ("Add this rule?", "+"),
        Some(RuleChange::Deny(_)) => ("Deny this, whatever allows it?", "deny:"),
        Some(RuleChange::Restore(_)) => ("Remove this rule of `deny`, for all that it covers?", "- deny:"),
    };
    let choices = changes.into_iter().map(|change| Choice {
        lines: vec![format!("{sign} {}", change.rule().to_yaml())],
        note: place_of(with_file, run),
        job: Job::Change { change: Box::new(change), with_file },
    });
    Ok(Confirmation {
        title: title.to_owned(),
        run: run.report.run.clone(),
        choices: choices.collect(),
        chosen: 0,
    })
}

fn place_of(with_file: bool, run: &Run) -> String {
    match file_of(run) {
        Some(file) if with_file => format!("In this run's policy, and in {file}."),
        _ => "In this run's policy; no file is changed.".to_owned(),
    }
}

/// The file that the run's policy comes from, if it reports one.
fn file_of(run: &Run) -> Option<String> {
    let source = run.report.policy_source.as_ref()?;
    Some(name(&source.file.display().to_string(), ASKED))
}
