//! Asks at the terminal that the run was started from.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp, ttyname};
use sandbox::network::{Question, Verdict};
use sandbox_files::FileLock;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use super::Board;
use super::text;
use crate::printer::{Printer, sanitize};

/// Who answers, in the network log.
const BY: &str = "terminal";
/// Between two looks whether it can be asked.
const PAUSE: Duration = Duration::from_secs(1);
/// From a question until it takes an answer: what is typed meanwhile may be meant for what was on
/// the screen before, which the task may have written.
const READING: Duration = Duration::from_secs(1);
/// Ends what a program may have begun or left switched on that changes how text looks: an
/// unfinished sequence, output that is held back, margins, colours, modes, character sets. Then
/// goes below all that it wrote: what looks like a question further down is gone.
const PLAIN: &str = "\x18\x1b\\\x1b[?2026l\x1b[?69l\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b[!p\x0f\x1b(B\x1b[0m\
    \x1b[?7h\x1b[4l\x1b[?6l\x1b[r\x1b[999;1H\r\n\x1b[J";
/// The terminal of a session, whichever it is.
const TTY: &CStr = c"/dev/tty";
/// Bytes of an answer at most.
const LINE: usize = 4096;

/// Whether there is a terminal that questions can be asked at.
pub(crate) fn has_terminal() -> bool {
    Terminal::open().is_ok()
}

/// Asks until it is dropped.
#[derive(Debug)]
pub(crate) struct Asking(JoinHandle<()>);

impl Asking {
    /// Asks what is on `board`.
    pub(crate) fn begin(board: &Board, printer: Printer) -> Self {
        let board = board.clone();
        Self(tokio::spawn(async move {
            if let Err(error) = ask_all(&board, printer).await {
                printer.warning(format_args!(
                    "questions are not asked here any more: {error}; `sandbox watch` shows them"
                ));
            }
        }))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The terminal of the session, open twice: to read from without waiting, and to write to.
#[derive(Debug)]
struct Terminal {
    /// No pipe, but read like one, which is all that this type does with it.
    keys: pipe::Receiver,
    screen: File,
    /// Its own name, where a stream of ours has it.
    name: CString,
}

impl Terminal {
    fn open() -> io::Result<Self> {
        let keys = pipe::Receiver::from_file_unchecked(open(TTY, OFlags::RDONLY | OFlags::NONBLOCK)?)?;
        let named = ttyname(io::stderr(), Vec::new());
        let named = named.or_else(|_| ttyname(io::stdin(), Vec::new()));
        let named = named.or_else(|_| ttyname(io::stdout(), Vec::new()));
        Ok(Self { keys, screen: open(TTY, OFlags::WRONLY)?, name: named.unwrap_or_else(|_| TTY.to_owned()) })
    }

    /// For the one run that asks here; `None` while another does. Those of one pipeline are all in
    /// the foreground.
    fn alone(&self) -> io::Result<Option<FileLock>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        // One that another user owns is opened by the name that all terminals share.
        FileLock::try_exclusive_on(open(&self.name, flags).or_else(|_| open(TTY, flags))?)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.screen.write_all(text.as_bytes())
    }

    /// The next line that is typed; `None` at the end of input.
    async fn line(&self) -> io::Result<Option<String>> {
        let mut buffer = [0; LINE];
        loop {
            self.keys.readable().await?;
            match self.keys.try_read(&mut buffer) {
                Ok(read) => {
                    let text = buffer.get(..read).map(String::from_utf8_lossy);
                    return Ok(text.filter(|text| !text.is_empty()).map(Cow::into_owned));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Descriptions of our own: those of our streams stay as they are.
fn open(path: &CStr, flags: OFlags) -> io::Result<File> {
    Ok(rustix::fs::open(path, flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?.into())
}

async fn ask_all(board: &Board, printer: Printer) -> io::Result<()> {
    let mut terminal = Terminal::open()?;
    loop {
        board.is_asked().await;
        let _alone = loop {
            // Who reads in the background is stopped, and the sandbox with it.
            if tcgetpgrp(&terminal.screen)? == getpgrp()
                && let Some(alone) = terminal.alone()?
            {
                break alone;
            }
            tokio::time::sleep(PAUSE).await; // tidy: sleep: nothing reports that a job comes to the foreground
        };
        let _screen = board.screen().await;
        // The time of others may be over by now.
        let Some(question) = board.questions().into_iter().next() else { continue };
        printer.remove_status();
        if let Some(verdict) = ask(board, &mut terminal, &question).await? {
            // Another process was faster, or the client: nothing is lost.
            let _ = board.answer(question.id, verdict, BY);
        } else {
            terminal.write("\r\n(it needs no answer any more)\r\n")?;
        }
    }
}

/// The answer to `question`; `None` where it is over.
async fn ask(board: &Board, terminal: &mut Terminal, question: &Question) -> io::Result<Option<Verdict>> {
    terminal.write(PLAIN)?;
    terminal.write(&sanitize(&text::question(question)))?;
    tokio::select! {
        () = tokio::time::sleep(READING) => {} // tidy: sleep: for what is being typed
        () = board.over(question.id) => return Ok(None),
    }
    loop {
        // What was typed before is no answer to what is asked now.
        tcflush(&terminal.screen, QueueSelector::IFlush)?;
        terminal.write(&text::answers(question, SystemTime::now()))?;
        let line = tokio::select! {
            line = terminal.line() => line?,
            () = board.over(question.id) => return Ok(None),
        };
        match line {
            // The end of input.
            None => return Ok(Some(Verdict::No)),
            Some(line) => {
                if let Some(verdict) = text::verdict(&line) {
                    return Ok(Some(verdict));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::UNIX_EPOCH;

    use allowlist::{Rule, UrlRule};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// One side of a pseudo-terminal, and the other.
    fn terminal() -> (File, Terminal) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let keys = open(&name, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
        let keys = pipe::Receiver::from_file_unchecked(keys).unwrap();
        let screen = open(&name, OFlags::WRONLY).unwrap();
        (File::from(master), Terminal { keys, screen, name })
    }

    fn shown_until(master: &mut File, text: &str) -> String {
        let mut shown = Vec::new();
        while !String::from_utf8_lossy(&shown).contains(text) {
            let mut byte = [0];
            master.read_exact(&mut byte).unwrap();
            shown.extend(byte);
        }
        String::from_utf8(shown).unwrap()
    }

    fn question() -> Question {
        let rule = Rule::Url(UrlRule::new("a.example", "/x", ["GET"]).unwrap());
        let (method, url) = ("GET".to_owned(), "https://a.example/x".to_owned());
        Question::new(1, method, url, rule, UNIX_EPOCH, UNIX_EPOCH)
    }

    #[tokio::test]
    async fn key_typed_before_the_question_is_ignored() {
        let board = Board::new(|_| {});
        tokio::spawn(board.clone().ask(question()));
        board.is_asked().await;
        let (mut master, mut terminal) = terminal();
        // As if it was typed for something else, a moment too late.
        let typing = std::thread::spawn(move || {
            let shown = shown_until(&mut master, "GET https://a.example/x");
            assert!(shown.contains("\x1b[r\x1b[999;1H\r") && shown.contains("\n\x1b[JNo rule"), "{shown:?}");
            master.write_all(b"a\n").unwrap();
            shown_until(&mut master, "[o]nce");
            master.write_all(b"o\n").unwrap();
            master
        });
        let asked = question();
        let verdict = ask(&board, &mut terminal, &asked).await.unwrap();
        assert_eq!(verdict, Some(Verdict::Once));
        drop(typing.join().unwrap());
    }

    #[tokio::test]
    async fn one_run_asks_at_a_terminal_at_once() {
        let (_master, first) = terminal();
        let other = || FileLock::try_exclusive_on(open(&first.name, OFlags::RDONLY).unwrap()).unwrap();
        let alone = first.alone().unwrap();
        assert!(alone.is_some() && other().is_none());
        drop(alone);
        assert!(other().is_some(), "the control");
    }
}
