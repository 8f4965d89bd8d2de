//! The client side.

use std::io;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use sandbox::network_event::PolicyState;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::folder::ControlFolder;
use super::message::{Answer, ExecTerminal, LINE_BYTES, Report, Request};
use crate::failure::Failure;
use crate::printer::Printer;

/// The timeout for a run's report.
const SHOW: Duration = Duration::from_secs(10);
/// The timeout for connecting to its streams, or to those of a command that it starts.
const START: Duration = Duration::from_secs(30);
/// The timeout for other requests. Longer than confirming a change or stopping a process takes.
const WORK: Duration = Duration::from_mins(2);

/// The runs of this user that can be controlled.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    folder: Option<ControlFolder>,
    found: Vec<Report>,
}

impl Runs {
    /// Requests the reports of all runs. Sockets of dead runs are removed.
    pub(crate) async fn find(state: &Path, printer: Printer) -> Result<Self, Failure> {
        let (runs, problems) = Self::look(state).await?;
        for problem in problems {
            printer.warning(problem);
        }
        Ok(runs)
    }

    /// The same, with the problems of the runs that did not report.
    pub(crate) async fn look(state: &Path) -> Result<(Self, Vec<String>), Failure> {
        let reading = || Failure::doing::<io::Error>("search the control sockets of runs");
        let Some(folder) = ControlFolder::open(state).map_err(reading())? else {
            return Ok((Self::default(), Vec::new()));
        };
        let mut runs = folder.runs().map_err(reading())?;
        runs.sort_unstable();
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        // Concurrently, so that a run that hangs does not delay the others.
        let asking = runs.iter().map(|run| timeout(SHOW, exchange(&folder, run, &Request::Show {})));
        for (run, answer) in runs.iter().zip(join_all(asking).await) {
            match answer {
                Ok(Ok(Answer::Done(report))) => found.push(*report),
                Ok(Ok(Answer::Failed(problem))) => problems.push(format!("run {run}: {problem}")),
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => folder.remove(run),
                // It ended just now.
                Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(Err(error)) => problems.push(format!("run {run} does not answer: {error}")),
                Err(_) => problems.push(format!("run {run} does not answer")),
            }
        }
        Ok((Self { folder: Some(folder), found }, problems))
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Report] {
        &self.found
    }

    /// The run whose id begins with `named`; without a name, the only one.
    pub(crate) fn one(&self, named: Option<&str>) -> Result<&Report, Failure> {
        let is_named = |run: &&Report| named.is_none_or(|named| run.run.starts_with(named));
        let matching: Vec<&Report> = self.found.iter().filter(is_named).collect();
        match (matching.as_slice(), named) {
            ([run], _) => Ok(run),
            ([], Some(named)) => Err(no_run(named)),
            ([], None) => Err(Failure::new("no run is in progress")),
            (several, _) => {
                let lines = several.iter().map(|run| {
                    format!("\n  {}  {}, pid {}, in {}", run.run, run.program, run.pid, run.project)
                });
                Err(Failure::usage(format!("more than one run matches:{}", lines.collect::<String>()))
                    .with_hint("name one by its id or a prefix of it"))
            }
        }
    }

    /// The runs that can be attached to.
    pub(crate) fn with_screen(self) -> Self {
        let found = self.found.into_iter().filter(|run| run.screen.is_some()).collect();
        Self { found, ..self }
    }

    /// Attaches to `run`.
    pub(crate) async fn attach(&self, run: &Report) -> Result<Connection, Failure> {
        self.connect(run, "attach to", &Request::Attach {}).await
    }

    /// Runs a command in `run`.
    pub(crate) async fn exec(
        &self,
        run: &Report,
        program: Vec<String>,
        terminal: Option<ExecTerminal>,
    ) -> Result<Connection, Failure> {
        self.connect(run, "run a command in", &Request::Exec { program, terminal }).await
    }

    /// A connection on which frames follow the answer to `request`.
    async fn connect(&self, run: &Report, what: &str, request: &Request) -> Result<Connection, Failure> {
        let doing = format!("{what} run {}", run.run);
        let folder = self.folder.as_ref().ok_or_else(|| Failure::new("no run is in progress"))?;
        let attaching = async {
            let mut stream = BufReader::new(folder.connect(&run.run).await?);
            let answer = talk(&mut stream, request).await?;
            Ok((answer, stream))
        };
        let talked: io::Result<_> = timeout(START, attaching).await.unwrap_or_else(|late| Err(late.into()));
        match talked.map_err(|error| failed(error, &run.run, doing.clone()))? {
            (Answer::Done(report), stream) => Ok(Connection { report: *report, stream }),
            (Answer::Failed(problem), _) => Err(Failure::new(format!("failed to {doing}: {problem}"))),
        }
    }

    /// Sends `run` a request, and returns its new state.
    pub(crate) async fn ask(&self, run: &Report, request: &Request) -> Result<Report, Failure> {
        let asking = || format!("control run {}", run.run);
        let folder = self.folder.as_ref().ok_or_else(|| Failure::new("no run is in progress"))?;
        let answer = timeout(WORK, exchange(folder, &run.run, request)).await;
        let answer = answer.map_err(|_| Failure::new(format!("run {} does not answer", run.run)))?;
        match answer.map_err(|error| failed(error, &run.run, asking()))? {
            Answer::Done(report) => Ok(*report),
            Answer::Failed(problem) => Err(Failure::new(format!("failed to {}: {problem}", asking()))),
        }
    }
}

fn no_run(named: &str) -> Failure {
    Failure::new(format!("unknown run `{named}`"))
        .with_hint("`sandbox status` lists instances; those of `run`, `agent` and `exec` can be controlled while they are active")
}

/// The error if `run`, which was found, does not answer.
fn failed(error: io::Error, run: &str, doing: String) -> Failure {
    match error.kind() {
        // It ended just now.
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => no_run(run),
        _ => Failure::doing(doing)(error),
    }
}

/// A connection to an attached run.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) report: Report,
    pub(crate) stream: BufReader<UnixStream>,
}

async fn exchange(folder: &ControlFolder, run: &str, request: &Request) -> io::Result<Answer> {
    let mut stream = BufReader::new(folder.connect(run).await?);
    talk(&mut stream, request).await.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), "the connection was closed: the run ended, or refuses this user")
        }
        _ => error,
    })
}

async fn talk(stream: &mut BufReader<UnixStream>, request: &Request) -> io::Result<Answer> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    line.clear();
    stream.take(LINE_BYTES).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}

/// The state of a run's shield, as text.
pub(crate) fn shield_of(run: &Report) -> String {
    match (run.shield, run.until_ms) {
        (None, _) => "-".to_owned(),
        (Some(PolicyState::Up), _) => "up".to_owned(),
        (Some(PolicyState::Down), until_ms) => match until_ms.and_then(rfc3339) {
            Some(until) => format!("down until {until}"),
            None => "down".to_owned(),
        },
        (Some(PolicyState::Quarantine), _) => "quarantine".to_owned(),
    }
}

fn rfc3339(at_ms: u64) -> Option<String> {
    let at = OffsetDateTime::from_unix_timestamp(i64::try_from(at_ms / 1000).ok()?).ok()?;
    at.format(&Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn report(run: &str) -> Report {
        Report {
            run: run.to_owned(),
            pid: 7,
            project: "/srv/p".to_owned(),
            program: "make".to_owned(),
            shield: Some(PolicyState::Down),
            until_ms: Some(1_770_122_696_999),
            policy: None,
            policy_source: None,
            started_ms: 0,
            screen: None,
            questions: Vec::new(),
            tools: Vec::new(),
            cost: None,
        }
    }

    #[test]
    fn run_is_found_by_a_prefix_of_its_id() {
        let of = |ids: &[&str]| Runs { folder: None, found: ids.iter().map(|id| report(id)).collect() };
        let runs = of(&["aa01", "aa02", "bb01"]);
        assert_eq!(runs.one(Some("b")).unwrap().run, "bb01");
        assert_eq!(runs.one(Some("aa02")).unwrap().run, "aa02");
        for several in [Some("aa"), None] {
            let error = runs.one(several).unwrap_err();
            assert!(error.to_string().contains("\n  aa02  make, pid 7, in /srv/p"), "{error}");
            assert_eq!(error.status().code(), 2);
        }
        assert!(runs.one(Some("c")).is_err() && of(&[]).one(None).is_err());
        assert_eq!(of(&["aa01"]).one(None).unwrap().run, "aa01");
    }

    #[test]
    fn shield_state_uses_the_terms_of_the_log() {
        assert_eq!(shield_of(&report("a")), "down until 2026-02-03T12:44:56Z");
        assert_eq!(shield_of(&Report { shield: Some(PolicyState::Up), ..report("a") }), "up");
        assert_eq!(shield_of(&Report { shield: None, ..report("a") }), "-");
    }

    #[tokio::test]
    async fn long_socket_paths_work_and_stale_sockets_are_removed() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("x".repeat(200));
        assert!(Runs::find(&state, Printer::new(0, true)).await.unwrap().all().is_empty());
        let folder = ControlFolder::create(&state).unwrap();
        let mode = |name: &str| {
            let path = state.join("control").join(name);
            std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
        };
        let listener = folder.listen("aa").unwrap();
        assert_eq!((mode("."), mode("aa.sock")), (0o700, 0o600));
        assert!(folder.connect("aa").await.is_ok(), "the control");
        drop(listener);
        assert_eq!(folder.runs().unwrap(), ["aa"]);
        assert!(Runs::find(&state, Printer::new(0, true)).await.unwrap().all().is_empty());
        assert!(folder.runs().unwrap().is_empty());
    }

    #[tokio::test]
    async fn refused_user_gets_the_reason() {
        let state = tempfile::tempdir().unwrap();
        let folder = ControlFolder::create(state.path()).unwrap();
        let listener = folder.listen("aa").unwrap();
        // At once, or after input that is not read.
        for waits in [false, true] {
            let server = listener.try_clone().unwrap();
            let refusing = std::thread::spawn(move || {
                let (mut stream, _) = server.accept().unwrap();
                if waits {
                    std::io::Read::read_exact(&mut stream, &mut [0]).unwrap();
                }
            });
            let error = exchange(&folder, "aa", &Request::Show {}).await.unwrap_err().to_string();
            refusing.join().unwrap();
            assert!(error.contains("refuses this user"), "{error}");
        }
    }
}
