//! `logs`: the network log of a run, or the output of its program.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use sandbox::network::{LogEntry, LogFollower, NetworkLog};

use super::attach::{not_stored, show};
use crate::args::{LogOutput, LogsArgs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::network_log::json_path;
use crate::owner::StoredOutput;
use crate::printer::Printer;
use crate::run_folder::{self, OUTPUT};
use crate::settings::Project;

/// Prints a log.
pub(crate) async fn logs(args: LogsArgs, project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    let (path, run) = if let Some(path) = args.file {
        let path = of_file(path, args.output);
        // A log in the work tree may have become a link or a pipe.
        match project.resolver.find(&path) {
            Ok(found) => found.file().map(|_| (found.path().to_owned(), None))?,
            Err(error) if error.is_not_found() => (path, None),
            Err(error) => return Err(error.into()),
        }
    } else {
        let run = match args.id.as_deref().or(args.run.as_deref()) {
            Some(named) => run_folder::find_in_all(&project.places.all_logs(), named)?,
            None => run_folder::find(&project.logs(), None)?,
        };
        if args.program {
            return program_output(&run, args.follow, printer).await;
        }
        let log = NetworkLog::new(&run);
        let path = if args.output == LogOutput::Text { log.path() } else { log.json_path() };
        (path, Some(run))
    };
    let wanted = Filter { blocked: args.blocked, output: args.output };
    if args.follow {
        return follow(&path, run, wanted, printer).await;
    }
    print(&path, wanted, printer)
}

/// Prints the stored output of the program of `run`.
async fn program_output(run: &Path, follow: bool, printer: Printer) -> Result<ExitStatus, Failure> {
    // The last messages come after the end of the run.
    let follow = follow || !run_folder::is_running(run);
    let output =
        StoredOutput::open(&run.join(OUTPUT), follow).map_err(not_stored(&run_folder::id_of(run)))?;
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    tokio::select! {
        shown = show(output, printer) => shown.map(|_| ExitStatus::Success),
        interrupt = interrupts.next() => Ok(ExitStatus::Interrupted(interrupt)),
    }
}

/// The named file, or its sibling in the other format.
fn of_file(path: PathBuf, output: LogOutput) -> PathBuf {
    let is_json = path.extension().is_some_and(|extension| extension == "jsonl");
    match output {
        LogOutput::Json | LogOutput::Ocsf if !is_json => {
            // The sandbox's own logs are next to each other, with different extensions.
            let sibling = path.with_extension("jsonl");
            let copy = json_path(&path);
            if !copy.exists() && sibling.exists() { sibling } else { copy }
        }
        _ => path,
    }
}

fn print(path: &Path, wanted: Filter, printer: Printer) -> Result<ExitStatus, Failure> {
    let reading = || format!("read the network log `{}`", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let missing = Failure::doing(reading())(error);
            return Err(missing.with_hint("a run with `network_sandbox: false` has no log"));
        }
        opened => opened.map_err(Failure::doing(reading()))?,
    };
    for line in BufReader::new(file).lines() {
        let line = line.map_err(Failure::doing(reading()))?;
        if let Some(line) = wanted.shown(line)
            && !printer.line(printer.sanitize(&line))
        {
            break;
        }
    }
    Ok(ExitStatus::Success)
}

async fn follow(
    path: &Path,
    run: Option<PathBuf>,
    wanted: Filter,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let following = || format!("follow the network log `{}`", path.display());
    let mut follower = LogFollower::of_file(path).map_err(Failure::doing(following()))?;
    if let Some(run) = run {
        let ended = tokio::task::spawn_blocking(move || run_folder::wait_for_end(&run));
        follower = follower.until(async move { drop(ended.await) });
    }
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    loop {
        let line = tokio::select! {
            line = follower.next_line() => line.map_err(Failure::doing(following()))?,
            interrupt = interrupts.next() => return Ok(ExitStatus::Interrupted(interrupt)),
        };
        let Some(line) = line else { break };
        if let Some(line) = wanted.shown(line)
            && !printer.line(printer.sanitize(&line))
        {
            break;
        }
    }
    Ok(ExitStatus::Success)
}

/// Which lines are printed, and how.
#[derive(Debug, Clone, Copy)]
struct Filter {
    blocked: bool,
    output: LogOutput,
}

impl Filter {
    /// What is printed of a line of the log.
    fn shown(self, line: String) -> Option<String> {
        if self.output == LogOutput::Text {
            return (!self.blocked || line.starts_with("BLOCKED ")).then_some(line);
        }
        // An unreadable entry is shown rather than lost.
        let Ok(entry) = LogEntry::parse(&line) else { return Some(line) };
        if self.blocked && !entry.blocked() {
            return None;
        }
        let ocsf = (self.output == LogOutput::Ocsf).then(|| entry.to_ocsf_line().ok()).flatten();
        Some(ocsf.map_or(line, |ocsf| ocsf.trim_end().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_filter_shows_only_refused_requests() {
        let text = Filter { blocked: true, output: LogOutput::Text };
        let passes = |filter: Filter, line: &str| filter.shown(line.to_owned()).as_deref() == Some(line);
        assert!(passes(text, "BLOCKED GET https://evil.test/ -> 403 [reason: host]"));
        assert!(!passes(text, "allowed GET https://BLOCKED/ -> 200"));
        let json = Filter { blocked: true, output: LogOutput::Json };
        let refused = r#"{"v":1,"time":"2026-02-03T12:34:56.790Z","event":"tls_refused","server_name":null,"alert":"a","reason":null}"#;
        let warning = r#"{"v":1,"time":"2026-02-03T12:34:56.789Z","event":"warning","text":"x"}"#;
        assert!(passes(json, refused) && !passes(json, warning));
        assert!(passes(json, "of another version"));
        assert!(passes(Filter { blocked: false, ..text }, "anything"));
        let ocsf = Filter { output: LogOutput::Ocsf, ..json };
        assert!(ocsf.shown(refused.to_owned()).is_some_and(|line| line.contains(r#""class_uid":4001"#)));
        assert_eq!(ocsf.shown(warning.to_owned()), None);
        assert!(passes(ocsf, "of another version"));
    }

    #[test]
    fn json_log_is_found_next_to_the_text() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("net.log");
        assert_eq!(of_file(log.clone(), LogOutput::Text), log);
        assert_eq!(of_file(log.clone(), LogOutput::Json), dir.path().join("net.log.jsonl"));
        std::fs::write(dir.path().join("net.jsonl"), "").unwrap();
        assert_eq!(of_file(log, LogOutput::Json), dir.path().join("net.jsonl"));
        let json = dir.path().join("net.jsonl");
        assert_eq!(of_file(json.clone(), LogOutput::Json), json);
    }
}
