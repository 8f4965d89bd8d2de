//! A shell on a pseudo-terminal: in a sandbox, and in a container of the engine's own command.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use benchmarks::Sample;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Args;
use super::report::ShellTimes;
use super::sandboxed::CommandLine;

const TIMEOUT: Duration = Duration::from_secs(30);
/// The keys that are typed in each shell, one after the other.
const KEYS: usize = 300;

/// The samples of one way.
#[derive(Debug, Default)]
pub(crate) struct Shell {
    /// From the start of the command to the prompt, in milliseconds.
    pub(crate) prompt: Sample,
    /// From a typed key to its echo, in microseconds.
    pub(crate) echo: Sample,
    /// The list of all that runs, while the shell does, in milliseconds.
    pub(crate) list: Sample,
}

impl Shell {
    pub(crate) fn spread(&self) -> ShellTimes {
        ShellTimes {
            prompt_ms: self.prompt.spread(),
            echo_us: self.echo.spread(),
            list_ms: self.list.spread(),
        }
    }
}

/// A round of both ways, with both shells at the same prompt for the echo.
pub(crate) fn round(
    args: &Args,
    command: &CommandLine<'_>,
    [sandboxed, bare]: [&mut Shell; 2],
) -> Result<()> {
    let podman = |arguments: &[&str]| {
        let mut podman = command_of(&args.podman);
        podman.args(arguments);
        podman
    };
    let sandbox = |arguments: &[&str]| command.of(arguments);
    let mut ours = Terminal::start(sandbox(&["run", "-t", "--", "bash", "--norc"]), sandboxed)?;
    let image = args.image.as_str();
    let mut theirs = Terminal::start(podman(&["run", "--rm", "-it", image, "bash", "--norc"]), bare)?;
    for _ in 0..KEYS {
        ours.echo(sandboxed)?;
        theirs.echo(bare)?;
    }
    sandboxed.list.push(timed(sandbox(&["ps"]))?);
    bare.list.push(timed(podman(&["ps"]))?);
    ours.end()?;
    theirs.end()
}

#[expect(clippy::disallowed_methods, reason = "the engine's own command is measured")]
pub(super) fn command_of(podman: &Path) -> Command {
    Command::new(podman)
}

fn timed(mut command: Command) -> Result<f64> {
    let begin = Instant::now();
    let output = command.stdin(Stdio::null()).output().context("failed to start the command")?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// A shell at its prompt.
struct Terminal {
    master: std::fs::File,
    child: Child,
}

impl Terminal {
    fn start(mut command: Command, shell: &mut Shell) -> Result<Self> {
        let (master, slave) = pair().context("failed to open a terminal")?;
        let stdio = || slave.try_clone().map(Stdio::from);
        command.stdin(stdio()?).stdout(stdio()?).stderr(stdio()?).env("TERM", "dumb");
        let begin = Instant::now();
        let child = command.spawn().context("failed to start the command")?;
        let mut terminal = Self { master, child };
        terminal.wait_for(|shown| shown.ends_with(b"# ") || shown.ends_with(b"$ "))?;
        shell.prompt.push(begin.elapsed().as_secs_f64() * 1e3);
        Ok(terminal)
    }

    fn echo(&mut self, shell: &mut Shell) -> Result<()> {
        let begin = Instant::now();
        self.master.write_all(b"x")?;
        self.wait_for(|shown| shown.contains(&b'x'))?;
        shell.echo.push(begin.elapsed().as_secs_f64() * 1e6);
        Ok(())
    }

    fn wait_for(&mut self, is_so: impl Fn(&[u8]) -> bool) -> Result<()> {
        let (mut shown, deadline) = (Vec::new(), Instant::now() + TIMEOUT);
        let mut bytes = [0; 4096];
        while !is_so(&shown) {
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now()))?;
            let readable = poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&left))?;
            let count = if readable == 0 { 0 } else { self.master.read(&mut bytes).unwrap_or_default() };
            if count == 0 {
                bail!("the shell showed only {:?}", String::from_utf8_lossy(&shown));
            }
            shown.extend_from_slice(bytes.get(..count).unwrap_or_default());
        }
        Ok(())
    }

    /// Ends the shell, and waits until its container is removed.
    fn end(mut self) -> Result<()> {
        self.master.write_all(b"\x15exit\n")?;
        let mut master = self.master;
        // The command waits until its output is read. Linux reports the end as an error.
        let reader = std::thread::spawn(move || while matches!(master.read(&mut [0; 4096]), Ok(1..)) {});
        let status = self.child.wait().context("failed to wait for the shell")?;
        drop(reader);
        if !status.success() {
            bail!("the shell ended with {status}");
        }
        Ok(())
    }
}

fn pair() -> std::io::Result<(std::fs::File, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(ptsname(&master, Vec::new())?, flags, Mode::empty())?;
    // All keys fit into one line.
    let size = Winsize { ws_row: 24, ws_col: 1000, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size)?;
    Ok((master.into(), slave))
}
