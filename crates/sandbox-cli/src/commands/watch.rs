//! `watch`: the runs of this user on the whole terminal, as they go on.

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
use state::{Effect, Order, State};
use work::{in_words, perform};

/// News that wait to be taken in, and how many are at once.
const WAITING: usize = 1024;
/// Keys that wait.
const KEYS: usize = 64;
/// The time between two drawings.
const DRAW: Duration = Duration::from_millis(50);

/// Shows them until the user leaves.
pub(crate) async fn watch(
    args: WatchArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(Failure::usage("there is no terminal: stdin and stdout have to be one")
            .with_hint("use `sandbox ps` and `sandbox logs --follow`, or `sandbox report`"));
    }
    let places = Places::find(environment)?;
    let chosen = match args.run.as_deref() {
        Some(named) => Some(Runs::find(&places.state, printer).await?.one(Some(named))?.run.clone()),
        None => None,
    };
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let screen = FullScreen::enter().map_err(Failure::doing("set the terminal up"))?;
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

/// The view, and what it works with.
struct Watching<'a> {
    screen: FullScreen,
    state: State,
    places: Places,
    environment: &'a Environment,
    /// What runs were asked for.
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
                return Err(Failure::new("a part of the view panicked, which is a fault in it"));
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
                    self.state.say(problem, true);
                }
            }
            News::Line { run, line } => {
                if let Some(run) = self.state.run_mut(&run) {
                    run.take(&line);
                }
            }
            News::Ended { run, cost, fault } => {
                if let Some(run) = self.state.run_mut(&run) {
                    (run.cost, run.fault) = (cost, fault);
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
                self.state.say(text, false);
            }
            Ok(Err(failure)) => self.state.say(in_words(&failure), true),
            // Its panic gave the terminal back, and the view ends.
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

    /// Stops as a program does that has no signal handler; the next SIGCONT takes the terminal
    /// again.
    fn suspend(&mut self) {
        self.screen.suspend();
        self.state.drawn(false, Instant::now());
        self.is_suspended = true;
        let _ = kill_current_process_group(Signal::STOP);
    }

    fn resume(&mut self) -> Result<(), Failure> {
        self.screen.resume().map_err(Failure::doing("set the terminal up again"))?;
        (self.is_suspended, self.is_drawn) = (false, false);
        Ok(())
    }
}

/// What is typed, and changes of the terminal's size; and when.
fn keys() -> mpsc::Receiver<(Event, Instant)> {
    let (sender, keys) = mpsc::channel(KEYS);
    // It ends with the process: nothing interrupts a read.
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
