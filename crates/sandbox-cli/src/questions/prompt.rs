//! Asks on the terminal from which the run was started.

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

/// The name of this side in the network log.
const BY: &str = "terminal";
/// The interval between attempts to use the terminal.
const PAUSE: Duration = Duration::from_secs(1);
/// The time from showing a question until it accepts an answer: earlier keys may be meant for the
/// previous screen, which the task may have written.
const READING: Duration = Duration::from_secs(1);
/// Ends everything that a program may have left on that changes how text looks: an unfinished
/// sequence, buffered output, margins, colours, modes, character sets. Then goes below all of its
/// output, so that no fake question is further down.
const PLAIN: &str = "\x18\x1b\\\x1b[?2026l\x1b[?69l\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b[!p\x0f\x1b(B\x1b[0m\
    \x1b[?7h\x1b[4l\x1b[?6l\x1b[r\x1b[999;1H\r\n\x1b[J";
/// The terminal of a session, whichever it is.
const TTY: &CStr = c"/dev/tty";
/// The maximum size of an answer, in bytes.
const LINE: usize = 4096;

/// Whether there is a terminal for questions.
pub(crate) fn has_terminal() -> bool {
    Terminal::open().is_ok()
}

/// Asks until it is dropped.
#[derive(Debug)]
pub(crate) struct Asking(JoinHandle<()>);

impl Asking {
    /// Starts asking the questions on `board`.
    pub(crate) fn begin(board: &Board, printer: Printer) -> Self {
        let board = board.clone();
        Self(tokio::spawn(async move {
            if board.has_program() && !has_terminal() {
                return;
            }
            if let Err(error) = ask_all(&board, printer).await {
                printer.warning(format_args!(
                    "questions are no longer asked here: {error}; use `sandbox watch`"
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

/// The terminal of the session, opened twice: for non-blocking reads, and for writes.
#[derive(Debug)]
struct Terminal {
    /// Not a pipe, but this type only polls and reads it.
    keys: pipe::Receiver,
    screen: File,
    /// Its own name, if one of our streams is the terminal.
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

    /// The lock of the only run that asks here; `None` while another one does. All runs of a
    /// pipeline are in the foreground.
    fn alone(&self) -> io::Result<Option<FileLock>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        // A terminal of another user is opened by the name that all terminals share.
        FileLock::try_exclusive_on(open(&self.name, flags).or_else(|_| open(TTY, flags))?)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.screen.write_all(text.as_bytes())
    }

    /// The next typed line; `None` at the end of input.
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

/// Separate open file descriptions, so that those of our streams are not changed.
fn open(path: &CStr, flags: OFlags) -> io::Result<File> {
    Ok(rustix::fs::open(path, flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?.into())
}

async fn ask_all(board: &Board, printer: Printer) -> io::Result<()> {
    let mut terminal = Terminal::open()?;
    loop {
        board.is_asked().await;
        let _alone = loop {
            // Reading in the background would stop the process, and the sandbox with it.
            if tcgetpgrp(&terminal.screen)? == getpgrp()
                && let Some(alone) = terminal.alone()?
            {
                break alone;
            }
            tokio::time::sleep(PAUSE).await; // tidy: sleep: nothing reports that a job comes to the foreground
        };
        let _screen = board.screen().await;
        // Other questions may have timed out meanwhile.
        let Some(question) = board.first() else { continue };
        printer.remove_status();
        if let Some(verdict) = ask(board, &mut terminal, &question).await? {
            // Another process answered first, or the client is gone: nothing is lost.
            let _ = board.answer(question.id, verdict, BY);
        } else {
            terminal.write("\r\n(no longer pending)\r\n")?;
        }
    }
}

/// The answer to `question`; `None` if it ended otherwise.
async fn ask(board: &Board, terminal: &mut Terminal, question: &Question) -> io::Result<Option<Verdict>> {
    terminal.write(PLAIN)?;
    terminal.write(&sanitize(&text::question(question)))?;
    tokio::select! {
        () = tokio::time::sleep(READING) => {} // tidy: sleep: for what is being typed
        () = board.over(question.id) => return Ok(None),
    }
    loop {
        // Earlier input is not an answer to this question.
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
        let board = Board::new(|_| {}, None);
        tokio::spawn(board.clone().ask(question()));
        board.is_asked().await;
        let (mut master, mut terminal) = terminal();
        // As if it were typed for something else, slightly too late.
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
    async fn only_one_run_asks_on_a_terminal() {
        let (_master, first) = terminal();
        let other = || FileLock::try_exclusive_on(open(&first.name, OFlags::RDONLY).unwrap()).unwrap();
        let alone = first.alone().unwrap();
        assert!(alone.is_some() && other().is_none());
        drop(alone);
        assert!(other().is_some(), "the control");
    }
}
