//! PID 1: one loop over the channel to the sandbox and the pipes of all commands. It never blocks
//! on a command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox_inside::{CommandLimits, End, ExceededLimit, Frame};

use super::control::{Control, send};
use super::processes::kill_strays;
use super::running::{Running, chunk};
use super::usage::Watch;

/// A descriptor that can be read or written without blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Control,
    Input(u32),
    Stdout(u32),
    Stderr(u32),
    /// Last: the output of a command precedes its end.
    Report(u32),
}

/// Serves the sandbox until it closes the channel.
pub(super) fn run() -> io::Result<()> {
    let mut supervisor = Supervisor {
        program: std::env::current_exe()?.into(),
        control: Control::default(),
        commands: BTreeMap::new(),
        watch: Watch::new(),
    };
    send(&Frame::Ready)?;
    loop {
        for ready in supervisor.wait()? {
            if !supervisor.serve(ready)? {
                // When PID 1 exits, the kernel kills every process of the container.
                return Ok(());
            }
        }
        supervisor.look()?;
    }
}

struct Supervisor {
    program: OsString,
    control: Control,
    commands: BTreeMap<u32, Running>,
    watch: Watch,
}

impl Supervisor {
    fn wait(&self) -> io::Result<Vec<Ready>> {
        let stdin = io::stdin();
        let mut sources = vec![(Ready::Control, PollFd::new(&stdin, PollFlags::IN))];
        for (&command, running) in &self.commands {
            let readers = [
                (Ready::Stdout(command), running.stdout.as_ref().map(|pipe| pipe.as_fd())),
                (Ready::Stderr(command), running.stderr.as_ref().map(|pipe| pipe.as_fd())),
            ];
            if let Some(pipe) = running.pending_input() {
                sources.push((Ready::Input(command), PollFd::new(pipe, PollFlags::OUT)));
            }
            for (ready, pipe) in readers {
                sources.extend(pipe.map(|pipe| (ready, PollFd::from_borrowed_fd(pipe, PollFlags::IN))));
            }
            let flags =
                if running.is_handing_over() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            sources.push((Ready::Report(command), PollFd::new(&running.report, flags)));
        }
        let (sources, mut waited): (Vec<Ready>, Vec<PollFd<'_>>) = sources.into_iter().unzip();
        match poll(&mut waited, self.next_check().as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        Ok(sources
            .into_iter()
            .zip(&waited)
            .filter(|(_, waited)| !waited.revents().is_empty())
            .map(|(ready, _)| ready)
            .collect())
    }

    /// Time until the next check of resource usage, if any command has a limit.
    fn next_check(&self) -> Option<Timespec> {
        let mut limits = self.commands.values().map(|running| running.limits);
        let is_limited = limits.any(|limits| limits != CommandLimits::default());
        // Always short enough for the kernel's type.
        is_limited.then(|| self.watch.wait().try_into().ok()).flatten()
    }

    /// Kills commands that exceed a limit of their own.
    fn look(&mut self) -> io::Result<()> {
        let commands = self.commands.iter();
        let commands = commands.map(|(&command, running)| (command, running.subreaper(), running.limits));
        for (command, limit) in self.watch.look(commands)? {
            self.finish(command, Some(limit))?;
        }
        Ok(())
    }

    /// `false` if the sandbox has closed the channel.
    fn serve(&mut self, ready: Ready) -> io::Result<bool> {
        match ready {
            Ready::Control => {
                let is_there = self.control.fill()?;
                while let Some(frame) = self.control.next()? {
                    self.handle(frame)?;
                }
                return Ok(is_there);
            }
            Ready::Input(command) => {
                let taken = self.commands.get_mut(&command).map_or(0, Running::write);
                report_taken(command, taken)?;
            }
            Ready::Stdout(command) => {
                let running = self.commands.get_mut(&command);
                if let Some(bytes) = running.and_then(|running| chunk(&mut running.stdout)) {
                    send(&Frame::Stdout { command, bytes })?;
                }
            }
            Ready::Stderr(command) => {
                let running = self.commands.get_mut(&command);
                if let Some(bytes) = running.and_then(|running| chunk(&mut running.stderr)) {
                    send(&Frame::Stderr { command, bytes })?;
                }
            }
            Ready::Report(command) => {
                let Some(running) = self.commands.get_mut(&command) else {
                    return Ok(true);
                };
                running.hand_over();
                if running.read_report() {
                    self.finish(command, None)?;
                }
            }
        }
        Ok(true)
    }

    fn handle(&mut self, frame: Frame) -> io::Result<()> {
        match frame {
            Frame::Start { command, request } => match Running::start(&self.program, &request) {
                Ok(running) => {
                    self.commands.insert(command, running);
                }
                Err(error) => {
                    let problem = format!("failed to start a process: {error}");
                    send(&Frame::Ended { command, end: End::Failed { problem } })?;
                }
            },
            Frame::Input { command, bytes } => {
                let running = self.commands.get_mut(&command);
                let taken = running.map_or(bytes.len(), |running| running.feed(&bytes));
                report_taken(command, taken)?;
            }
            Frame::EndOfInput { command } => {
                if let Some(running) = self.commands.get_mut(&command) {
                    running.end_input();
                }
            }
            Frame::Kill { command } => self.finish(command, None)?,
            Frame::Ready
            | Frame::Stdout { .. }
            | Frame::Stderr { .. }
            | Frame::Taken { .. }
            | Frame::Ended { .. } => {
                return Err(io::Error::other("the sandbox sent a frame that only the supervisor sends"));
            }
        }
        Ok(())
    }

    /// Kills a command with every process that it started, and reports the rest of its output and
    /// its end.
    fn finish(&mut self, command: u32, exceeded: Option<ExceededLimit>) -> io::Result<()> {
        // It had already ended.
        let Some(mut running) = self.commands.remove(&command) else {
            return Ok(());
        };
        running.kill_subreaper();
        kill_strays(&self.commands.values().map(Running::subreaper).collect())?;
        running.read_rest_of_report();
        for bytes in Running::rest(&mut running.stdout) {
            send(&Frame::Stdout { command, bytes })?;
        }
        for bytes in Running::rest(&mut running.stderr) {
            send(&Frame::Stderr { command, bytes })?;
        }
        let end = exceeded.map_or_else(|| running.result(), End::Exceeded);
        send(&Frame::Ended { command, end })
    }
}

fn report_taken(command: u32, taken: usize) -> io::Result<()> {
    if taken == 0 {
        return Ok(());
    }
    let bytes = u32::try_from(taken).unwrap_or(u32::MAX);
    send(&Frame::Taken { command, bytes })
}
