//! The requests of runs, from their logs. All text in them comes from tasks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use allowlist::{Asked, Reason};
use sandbox::network::NetworkLog;
use sandbox::network_event::{BlockReason, Event, RequestOutcome, RequestRecord};

use crate::failure::Failure;
use crate::printer::Printer;

/// Equal requests with equal results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Logged {
    pub(super) asked: Asked,
    /// Why they were refused; `None` if they were not.
    pub(super) reason: Option<BlockReason>,
}

impl Logged {
    /// Whether rules for hosts, paths and methods decided it, or would have without an audit.
    pub(super) fn is_up_to_rules(&self) -> bool {
        match self.reason {
            None => true,
            Some(BlockReason::Policy(reason)) => {
                matches!(
                    reason,
                    Reason::OuterPolicy
                        | Reason::Host
                        | Reason::PathNotAllowed
                        | Reason::Method
                        | Reason::Query
                )
            }
            Some(_) => false,
        }
    }
}

/// The requests of the run with this folder.
pub(super) fn of_run(folder: &Path, printer: Printer) -> Result<Vec<Logged>, Failure> {
    let mut requests = Requests::default();
    requests.read(folder, printer)?;
    Ok(requests.logged)
}

/// The requests of the runs with these folders, equal ones counted together.
pub(super) fn of_runs(folders: &[PathBuf], printer: Printer) -> Result<Vec<Logged>, Failure> {
    let mut requests = Requests::default();
    folders.iter().try_for_each(|folder| requests.read(folder, printer))?;
    Ok(requests.logged)
}

/// The URL of a request.
pub(in crate::commands) fn url(request: &RequestRecord) -> String {
    let RequestRecord { scheme, host, target, .. } = request;
    // A target without a leading slash would be parsed as part of the host.
    let slash = if target.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{host}{slash}{target}")
}

/// In order of first occurrence.
#[derive(Default)]
struct Requests {
    logged: Vec<Logged>,
    places: BTreeMap<(String, String, Option<&'static str>), usize>,
}

impl Requests {
    /// Adds the requests of the run with this folder.
    fn read(&mut self, folder: &Path, printer: Printer) -> Result<(), Failure> {
        let log = NetworkLog::new(folder);
        let reading = || format!("read the network log `{}`", log.json_path().display());
        let entries = match log.entries() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let missing = Failure::doing(reading())(error);
                return Err(missing.with_hint("a run with `network_sandbox: false` has no log"));
            }
            opened => opened.map_err(Failure::doing(reading()))?,
        };
        let mut unreadable = 0_u64;
        for entry in entries {
            match entry {
                Ok(entry) => {
                    if let Event::Request(request) = &entry.event {
                        self.add(request, entry.repeated.max(1));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => unreadable += 1,
                Err(error) => return Err(Failure::doing(reading())(error)),
            }
        }
        if unreadable > 0 {
            printer.warning(format_args!("{unreadable} unreadable entries of the log were skipped"));
        }
        Ok(())
    }

    fn add(&mut self, request: &RequestRecord, count: u64) {
        let method = &request.method;
        let blocked = request.decision == RequestOutcome::Blocked;
        let answered = request.decision == RequestOutcome::Allowed;
        // Only another program writes an entry without a reason: rules did not decide it.
        let reason = blocked.then(|| request.reason.unwrap_or(BlockReason::Framing));
        let url = url(request);
        let key = (method.clone(), url.clone(), reason.map(BlockReason::as_str));
        let place = *self.places.entry(key).or_insert(self.logged.len());
        if let Some(logged) = self.logged.get_mut(place) {
            logged.asked.count = logged.asked.count.saturating_add(count);
            logged.asked.answered |= answered;
        } else {
            let asked = Asked { method: method.clone(), url, count, blocked, answered };
            self.logged.push(Logged { asked, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_requests_are_counted_and_unreadable_ones_skipped() {
        let run = tempfile::tempdir().unwrap();
        let request = |decision: &str, host: &str, target: &str, reason: &str, more: &str| {
            format!(
                "{{\"v\":1,\"time\":\"2026-02-03T12:34:59.000Z\",\"event\":\"request\",\"decision\":\"{decision}\",\"method\":\"GET\",\
                 \"scheme\":\"https\",\"host\":\"{host}\",\"target\":\"{target}\",\"status\":200,\"rule\":null,\"reason\":{reason},\
                 \"error\":null,\"bytes_up\":0,\"bytes_down\":0,\"first_byte_ms\":null,\"duration_ms\":0{more}}}\n"
            )
        };
        let log = [
            request("blocked", "a.test", "/x", "\"host\"", ""),
            request("error", "b.test", "/", "null", ""),
            request("allowed", "b.test", "/", "null", ",\"shield_down\":true"),
            request("error", "c.test", "/", "null", ""),
            "nonsense\n".to_owned(),
            request("blocked", "a.test", "/x", "\"host\"", ",\"repeated\":40"),
            request("blocked", "a.test", ".evil.test/", "\"path\"", ""),
            "{\"v\":1,\"time\":\"2026-02-03T12:34:56.789Z\",\"event\":\"task_start\"}\n".to_owned(),
        ];
        std::fs::write(run.path().join("network-sandbox.jsonl"), log.concat()).unwrap();
        let logged = of_run(run.path(), Printer::new(0, true)).unwrap();
        let shown: Vec<_> = logged
            .iter()
            .map(|logged| {
                let Asked { url, count, blocked, answered, .. } = &logged.asked;
                (url.as_str(), *count, *blocked, *answered, logged.is_up_to_rules())
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("https://a.test/x", 41, true, false, true),
                ("https://b.test/", 2, false, true, true),
                ("https://c.test/", 1, false, false, true),
                ("https://a.test/.evil.test/", 1, true, false, false),
            ]
        );
        let twice = of_runs(&[run.path().to_owned(), run.path().to_owned()], Printer::new(0, true)).unwrap();
        assert_eq!(twice.iter().map(|logged| logged.asked.count).collect::<Vec<_>>(), [82, 4, 2, 2]);
        assert!(of_run(Path::new("/no/such/run"), Printer::new(0, true)).unwrap_err().hint().is_some());
    }
}
