//! `watch`: shows the runs of this user live, full screen.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use crate::args::WatchArgs;
use crate::config::{Environment, Places};
use crate::control::{Report, Runs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Interrupts};
use crate::printer::Printer;
use crate::terminal::FullScreen;

mod change;
mod feed;
mod inert;
mod over;
mod row;
mod run;
mod seen;
mod state;
mod style;
mod text;
mod view;
mod work;

use feed::{News, feed};
pub(super) use run::Totals;
use state::{Effect, Order, State};
use work::{in_words, perform};

/// The number of pending news, and of those that are handled at once.
const WAITING: usize = 1024;
/// The number of pending keys.
const KEYS: usize = 64;
/// The time between two drawings.
const DRAW: Duration = Duration::from_millis(50);

/// Shows the runs until the user quits.
pub(crate) async fn watch(
    args: WatchArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(Failure::usage("stdin and stdout must be a terminal")
            .with_hint("use `sandbox ps` and `sandbox logs --follow`, or `sandbox report`"));
    }
    let places = Places::find(environment)?;
    let chosen = match args.run.as_deref() {
        Some(named) => Some(Runs::find(&places.state, printer).await?.one(Some(named))?.run.clone()),
        None => None,
    };
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let screen = FullScreen::enter().map_err(Failure::doing("set up the terminal"))?;
    let watching = Watching {
        screen,
        state: State::new(chosen),
        places,
        environment,
        orders: JoinSet::new(),
        is_drawn: false,
        is_suspended: false,
    };
    watching.go_on(&mut interrupts).await
}

/// The view and its dependencies.
struct Watching<'a> {
    screen: FullScreen,
    state: State,
    places: Places,
    environment: &'a Environment,
    /// Pending orders to runs.
    orders: JoinSet<Result<(Report, String), Failure>>,
    /// Whether the screen shows the state.
    is_drawn: bool,
    is_suspended: bool,
}

impl Watching<'_> {
    async fn go_on(mut self, interrupts: &mut Interrupts) -> Result<ExitStatus, Failure> {
        let listening = |kind| signal(kind).map_err(Failure::doing("listen for signals"));
        let mut stopped = listening(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
        let mut continued = listening(SignalKind::from_raw(Signal::CONT.as_raw()))?;
        let (sender, mut news) = mpsc::channel(WAITING);
        let feeding = tokio::spawn(feed(self.places.clone(), sender));
        let mut keys = keys();
        let mut batch = Vec::new();
        let mut drawings = interval(DRAW);
        drawings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let status = loop {
            let effect = tokio::select! {
                interrupt = interrupts.next() => break ExitStatus::Interrupted(interrupt),
                event = keys.recv() => match event {
                    Some((event, at)) => self.take_event(&event, at),
                    // The terminal is gone.
                    None => break ExitStatus::Interrupted(Interrupt::HangUp),
                },
                1.. = news.recv_many(&mut batch, WAITING) => {
                    batch.drain(..).for_each(|news| self.take_news(news));
                    None
                }
                Some(done) = self.orders.join_next() => {
                    self.take_result(done);
                    None
                }
                _ = stopped.recv() => Some(Effect::Suspend),
                _ = continued.recv() => {
                    self.resume()?;
                    None
                }
                _ = drawings.tick(), if !(self.is_drawn || self.is_suspended) => {
                    self.draw()?;
                    None
                }
            };
            match effect {
                Some(Effect::Leave) => break ExitStatus::Success,
                Some(Effect::Interrupt) => break ExitStatus::Interrupted(Interrupt::KeyPress),
                Some(Effect::Suspend) => self.suspend(),
                Some(Effect::Order(order)) => self.begin(order),
                None => {}
            }
            if self.screen.is_lost() && !self.is_suspended {
                return Err(Failure::new("a part of the view panicked; this is a bug"));
            }
        };
        feeding.abort();
        Ok(status)
    }

    fn take_event(&mut self, event: &Event, at: Instant) -> Option<Effect> {
        self.is_drawn = false;
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.state.press(*key, at),
            _ => None,
        }
    }

    fn take_news(&mut self, news: News) {
        self.is_drawn = false;
        match news {
            News::Runs { reports, problems, now_ms } => {
                self.state.take_reports(reports, now_ms);
                if let (Some(problem), None) = (problems.into_iter().next(), &self.state.message) {
                    self.state.set_message(problem, true);
                }
            }
            News::Line { run, line } => {
                if let Some(run) = self.state.run_mut(&run) {
                    run.take(&line);
                }
            }
            News::Ended { run, cost, problem } => {
                if let Some(run) = self.state.run_mut(&run) {
                    (run.cost, run.problem) = (cost, problem);
                }
            }
        }
    }

    fn begin(&mut self, order: Order) {
        let (places, environment) = (self.places.clone(), self.environment.clone());
        self.orders.spawn(async move { perform(order, &places, &environment).await });
    }

    fn take_result(&mut self, done: Result<Result<(Report, String), Failure>, JoinError>) {
        self.is_drawn = false;
        match done {
            Ok(Ok((now, text))) => {
                if let Some(run) = self.state.run_mut(&now.run) {
                    run.report = now;
                }
                self.state.set_message(text, false);
            }
            Ok(Err(failure)) => self.state.set_message(in_words(&failure), true),
            // Its panic restored the terminal, and the view ends.
            Err(_) => {}
        }
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let state = &self.state;
        let mut is_whole = false;
        let drawn = self.screen.terminal.draw(|frame| {
            is_whole = view::draw(state, frame.area(), frame.buffer_mut());
        });
        drawn.map_err(Failure::doing("draw on the terminal"))?;
        self.state.drawn(is_whole, Instant::now());
        self.is_drawn = true;
        Ok(())
    }

    /// Stops like a program without a signal handler; the next SIGCONT takes the terminal again.
    fn suspend(&mut self) {
        self.screen.suspend();
        self.state.drawn(false, Instant::now());
        self.is_suspended = true;
        let _ = kill_current_process_group(Signal::STOP);
    }

    fn resume(&mut self) -> Result<(), Failure> {
        self.screen.resume().map_err(Failure::doing("set up the terminal again"))?;
        (self.is_suspended, self.is_drawn) = (false, false);
        Ok(())
    }
}

/// Key presses and resizes of the terminal, with their times.
fn keys() -> mpsc::Receiver<(Event, Instant)> {
    let (sender, keys) = mpsc::channel(KEYS);
    // The thread ends with the process, because a read cannot be interrupted.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send((event, Instant::now())).is_err() {
                break;
            }
        }
    });
    keys
}

#[cfg(test)]
mod tests;
