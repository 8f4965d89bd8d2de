//! Copies of a run's network log: in a file of the user, and live on stderr.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use allowlist::Reason;
use sandbox::host_path::Resolver;
use sandbox::network::{LogFollower, NetworkLog};
use sandbox::network_event::{BlockReason, Event, RequestOutcome};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::printer::Printer;
use crate::trace::LOG_MODE;

/// The prefix of each line on stderr.
const LIVE_PREFIX: &str = "[net] ";

/// The requested copies.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogCopies {
    /// A file for the text; the JSON goes next to it.
    pub(crate) file: Option<PathBuf>,
    /// Each line on stderr.
    pub(crate) live: bool,
}

/// The maximum number of hosts that are listed.
const MOST_HOSTS: usize = 10;

/// On a terminal, lists the hosts that no rule allows, each with the command to allow it.
pub(crate) fn report_blocked(folder: &Path, printer: Printer) {
    for host in blocked_hosts(folder) {
        printer.progress(&format!("{host} was blocked; to allow it: sandbox allowlist allow {host}"));
    }
}

/// The first hosts that the run in `folder` requested and no rule allows, without duplicates.
/// Unreadable entries are skipped.
pub(crate) fn blocked_hosts(folder: &Path) -> Vec<String> {
    let mut hosts = Vec::new();
    let Ok(mut entries) = NetworkLog::new(folder).entries() else { return hosts };
    while hosts.len() < MOST_HOSTS {
        match entries.next() {
            Some(Ok(entry)) => {
                if let Event::Request(request) = entry.event
                    && request.decision == RequestOutcome::Blocked
                    && request.reason == Some(BlockReason::Policy(Reason::Host))
                    && is_plain(&request.host)
                    && !hosts.contains(&request.host)
                {
                    hosts.push(request.host);
                }
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {}
            Some(Err(_)) | None => break,
        }
    }
    hosts
}

/// Whether the name, which a task chose, is one plain word in a shell.
fn is_plain(host: &str) -> bool {
    host.starts_with(|c: char| c.is_ascii_alphanumeric())
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
}

/// A copy in progress.
#[derive(Debug)]
pub(crate) struct LogTap {
    copies: Vec<Copy>,
}

#[derive(Debug)]
struct Copy {
    end: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl LogTap {
    /// Starts copying the log in `folder`. The files are opened now, so later changes of their
    /// names have no effect.
    pub(crate) fn start(
        folder: &Path,
        wanted: &LogCopies,
        resolver: &Resolver,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let log = NetworkLog::new(folder);
        let mut copies = Vec::new();
        let follow =
            |follower: io::Result<LogFollower>| follower.map_err(Failure::doing("follow the network log"));
        if let Some(path) = &wanted.file {
            let (mut text, mut json) = (open(resolver, path)?, open(resolver, &json_path(path))?);
            copies.push(Copy::start(follow(log.follow())?, move |line| writeln!(text, "{line}")));
            copies.push(Copy::start(follow(log.follow_json())?, move |line| writeln!(json, "{line}")));
        }
        if wanted.live {
            copies.push(Copy::start(follow(log.follow())?, move |line| {
                printer.message(format_args!("{LIVE_PREFIX}{line}"));
                Ok(())
            }));
        }
        Ok(Self { copies })
    }

    /// Waits until the current content of the log is copied.
    pub(crate) async fn finish(self, printer: Printer) {
        for Copy { end, task } in self.copies {
            // The receiver is gone if the copy already ended.
            let _ = end.send(());
            if let Ok(Err(error)) = task.await {
                printer.warning(format_args!("the copy of the network log is incomplete: {error}"));
            }
        }
    }
}

impl Copy {
    fn start(follower: LogFollower, write: impl FnMut(&str) -> io::Result<()> + Send + 'static) -> Self {
        let (end, ended) = oneshot::channel::<()>();
        let follower = follower.until(async move { drop(ended.await) });
        Self { end, task: tokio::spawn(copy(follower, write)) }
    }
}

async fn copy(mut follower: LogFollower, mut write: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    while let Some(line) = follower.next_line().await? {
        write(&line)?;
    }
    Ok(())
}

fn open(resolver: &Resolver, path: &Path) -> Result<File, Failure> {
    let opened = resolver.append(path, LOG_MODE);
    opened.map_err(Failure::doing(format!("open the network log `{}`", path.display())))
}

/// The path of the JSON next to the log `text`: the same name with `.jsonl` appended.
pub(crate) fn json_path(text: &Path) -> PathBuf {
    let mut path = text.as_os_str().to_owned();
    path.push(".jsonl");
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_hosts_are_listed_once_and_only_if_shell_safe() {
        let run = tempfile::tempdir().unwrap();
        let line = |decision: &str, reason: &str, host: &str| {
            format!(
                "{{\"v\":1,\"time\":\"2026-02-03T12:34:59.000Z\",\"event\":\"request\",\"decision\":\"{decision}\",\"method\":\"GET\",\
                 \"scheme\":\"https\",\"host\":\"{host}\",\"target\":\"/\",\"status\":200,\"rule\":null,\"reason\":{reason},\
                 \"error\":null,\"bytes_up\":0,\"bytes_down\":0,\"first_byte_ms\":null,\"duration_ms\":0}}\n"
            )
        };
        let refused = "\"host\"";
        let mut lines = vec![
            line("allowed", "null", "a.test"),
            line("blocked", refused, "b.test"),
            line("blocked", "\"path\"", "c.test"),
            "cut".to_owned(),
            "\n".to_owned(),
            line("blocked", refused, "b.test"),
            line("blocked", refused, "$(id).test"),
            line("blocked", refused, "-d"),
            line("blocked", refused, "d.test"),
        ];
        let hosts = |lines: &[String]| {
            std::fs::write(run.path().join("network-sandbox.jsonl"), lines.concat()).unwrap();
            blocked_hosts(run.path())
        };
        assert_eq!(hosts(&lines), ["b.test", "d.test"]);
        lines.extend((0..20).map(|at| line("blocked", refused, &format!("{at}.test"))));
        assert_eq!(hosts(&lines).len(), MOST_HOSTS);
        assert_eq!(blocked_hosts(&run.path().join("none")), Vec::<String>::new());
    }

    #[tokio::test]
    async fn both_logs_are_copied_completely() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        std::fs::create_dir(&run).unwrap();
        let wanted = LogCopies { file: Some(dir.path().join("net.log")), live: false };
        let tap = LogTap::start(&run, &wanted, &Resolver::default(), Printer::new(0, true)).unwrap();
        std::fs::write(run.join("network-sandbox.log"), "one\ntwo\n").unwrap();
        std::fs::write(run.join("network-sandbox.jsonl"), "{}\n").unwrap();
        tap.finish(Printer::new(0, true)).await;
        assert_eq!(std::fs::read_to_string(dir.path().join("net.log")).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(dir.path().join("net.log.jsonl")).unwrap(), "{}\n");
    }
}
