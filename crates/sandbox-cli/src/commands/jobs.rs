//! `jobs`, `collect`, `cancel`: what became of submitted bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox::host_path::Found;
use sandbox_bundle::RunResult;
use sandbox_files::{FileLock, create_folder};
use serde::Serialize;

use super::job::place;
use super::result_copy::{record_of, verified};
use super::run_bundle::given;
use crate::args::{CancelArgs, CollectArgs, JobsArgs, Output};
use crate::bundle_result::CHANGES;
use crate::config::{Environment, Places};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, plain_or_quoted, sanitize_name};
use crate::slurm::{Job, Slurm, Submission, SubmittedTask, sealed};
use crate::table::aligned;

/// The number of attempts that may end with 75.
const MOST_ATTEMPTS: u32 = 5;
/// The time between two looks at Slurm's queue.
const BETWEEN: Duration = Duration::from_secs(5);
/// After so long, a node that did not take secrets is not asked for its other jobs in the same pass.
const SILENCE: Duration = Duration::from_secs(10);
/// Seconds for which `cancel` waits for jobs to end.
const ENDING: u32 = 120;
/// After so long, the result of a job that has ended is not hidden by a cache of a network file system,
/// which is up to a minute behind.
const HIDDEN: Duration = Duration::from_secs(90);
/// The lock of `collect`, in the folder of a submission.
const LOCK: &str = "collect.lock";

/// A submission, its folder, and Slurm.
struct Submitted {
    folder: Found,
    submission: Submission,
    slurm: Slurm,
}

/// A row of `jobs`.
#[derive(Debug, Serialize)]
struct Row {
    number: u32,
    bundle: String,
    /// Slurm's word, `DONE` if there is a result, `CANCELLED` if there will be none because of `cancel`, `GONE` if
    /// there is none and Slurm does not know the job.
    state: String,
    node: Option<String>,
    /// Why Slurm does not start it.
    reason: Option<String>,
    exit_code: Option<u8>,
    outcome: Option<&'static str>,
    /// Attempts that found an API busy.
    retries: usize,
}

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct JobsReport {
    version: u32,
    jobs: Vec<Row>,
}

/// The names of results without a final name, by the numbers of their bundles.
type Attempts = BTreeMap<u32, Vec<OsString>>;

/// What became of a bundle.
enum Look {
    Waits,
    Done,
    /// It will have no result, for this reason.
    Lost(String),
}

/// What `collect` has and did.
#[derive(Default)]
struct Waiting {
    retry_delay: Duration,
    secrets: Option<BTreeMap<String, String>>,
    /// The starts of the jobs that have their secrets.
    given: BTreeMap<u32, String>,
    /// The nodes that did not respond in this pass.
    silent: BTreeSet<String>,
    /// The bundles whose jobs did not respond. They are asked after the others.
    slow: BTreeSet<u32>,
    /// Since when each has had no job that could store a result.
    ended: BTreeMap<u32, Instant>,
    /// How often each was started again.
    retries: BTreeMap<u32, u32>,
}

/// `jobs`
pub(crate) fn jobs(
    args: &JobsArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let submitted = Submitted::open(&args.submission.folder, environment)?;
    let rows = submitted.rows()?;
    match args.output {
        Output::Json => drop(printer.line(serde_json::to_string(&JobsReport { version: 1, jobs: rows })?)),
        Output::Text => {
            let head = ["N", "BUNDLE", "STATE", "NODE", "EXIT CODE", "RETRIES"].map(str::to_owned).to_vec();
            let lines: Vec<_> = [head].into_iter().chain(rows.into_iter().map(Row::cells)).collect();
            let _ = aligned(&lines).iter().all(|line| printer.line(line));
        }
    }
    Ok(ExitStatus::Success)
}

/// `cancel`: jobs that run get SIGTERM, so that they end their containers. Waits for that.
pub(crate) async fn cancel(
    args: &CancelArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let submitted = Submitted::open(&args.submission.folder, environment)?;
    let numbers: BTreeSet<u32> = args.numbers.iter().map(|number| number.get()).collect();
    let count = submitted.submission.tasks.len();
    if let Some(unknown) = numbers.iter().find(|&&number| number as usize > count) {
        return Err(Failure::usage(format!("there is no bundle with the number {unknown}")));
    }
    let is_named = |number: &u32| numbers.is_empty() || numbers.contains(number);
    let active = || -> Result<Vec<Job>, Failure> {
        let jobs = submitted.slurm.jobs(&submitted.submission.job_name())?.into_iter();
        let active = jobs.filter(|(number, job)| is_named(number) && !job.has_ended());
        Ok(active.map(|(_, job)| job).collect())
    };
    // One that waits for a retry has no job.
    let marked = submitted.mark_cancelled(is_named);
    let begun = active()?;
    if !begun.is_empty() {
        let (pending, others): (Vec<&Job>, _) = begun.iter().partition(|job| !job.has_begun());
        let cancel = |flags: &[&str], jobs: &[&Job]| {
            let elements = jobs.iter().map(|job| job.element.as_str());
            let cancel = || submitted.slurm.run("scancel", flags.iter().copied().chain(elements), b"");
            if jobs.is_empty() { Ok(String::new()) } else { cancel() }
        };
        // With --state=PENDING, scancel ends all elements of an array that have not started. One that
        // starts meanwhile sees its mark.
        let ended = cancel(&[], &pending);
        // Only to the script, which is this program: it would lose podman otherwise. scancel may fail
        // after it sent the signal.
        let sent = ended.and(cancel(&["--state=RUNNING", "--batch", "--signal=TERM"], &others));
        let mut left = ENDING;
        while !active()?.is_empty() {
            if left == 0 {
                sent?;
                return Err(Failure::new("some jobs have not ended yet")
                    .with_hint("look at them with `sandbox jobs`"));
            }
            left -= 1;
            // tidy: sleep: Slurm reports no ends
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    let mut cancelled = marked?;
    // Some may have stored their result meanwhile.
    let results = submitted.results()?;
    cancelled.retain(|number| !results.contains(number));
    printer.message(format_args!("{} cancelled", cancelled.len()));
    Ok(ExitStatus::Success)
}

/// `collect`: waits for all results, and verifies them.
pub(crate) async fn collect(
    args: &CollectArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let submitted = Submitted::open(&args.submission.folder, environment)?;
    let secrets = if args.secrets_stdin { Some(given::object(io::stdin().lock())?) } else { None };
    submitted.compare(secrets.as_ref(), printer)?;
    let _lock = locked(&submitted, printer)?;
    let mut waiting = Waiting { retry_delay: args.retry_delay, secrets, ..Waiting::default() };
    let mut numbers: BTreeSet<u32> = submitted.submission.numbered().map(|(number, _)| number).collect();
    let (mut failed, mut is_reachable) = (BTreeMap::new(), true);
    while !numbers.is_empty() {
        // Before the results: a job that has ended has stored its own.
        let jobs = submitted.slurm.jobs(&submitted.submission.job_name());
        match jobs.and_then(|jobs| Ok((jobs, submitted.attempts()?))) {
            Ok((jobs, attempts)) => {
                is_reachable = true;
                waiting.silent.clear();
                let mut order: Vec<u32> = numbers.iter().copied().collect();
                order.sort_by_key(|number| waiting.slow.contains(number));
                for number in order {
                    match submitted.look(number, (&jobs, &attempts), &mut waiting, printer) {
                        Ok(Look::Waits) => continue,
                        Ok(Look::Done) => {}
                        Ok(Look::Lost(reason)) => drop(failed.insert(number, reason)),
                        Err(failure) => {
                            printer.warning(format_args!("{number}: {failure}"));
                            continue;
                        }
                    }
                    numbers.remove(&number);
                }
            }
            Err(failure) => {
                if is_reachable {
                    printer.failure(&failure);
                    printer.warning("jobs go on meanwhile; trying again");
                }
                is_reachable = false;
            }
        }
        if !numbers.is_empty() {
            // tidy: sleep: Slurm reports no ends
            tokio::time::sleep(BETWEEN).await;
        }
    }
    for (number, reason) in &failed {
        printer.warning(format_args!("{number} has no result: {reason}; see logs/{number}.log"));
    }
    let count = submitted.submission.tasks.len();
    printer.message(format_args!("{} of {count} bundles have a result", count - failed.len()));
    Ok(if failed.is_empty() { ExitStatus::Success } else { ExitStatus::Negative })
}

/// The lock of `collect`: two would end each other's retries.
fn locked(submitted: &Submitted, printer: Printer) -> Result<Option<FileLock>, Failure> {
    let path = submitted.folder.path().join(LOCK);
    match FileLock::try_exclusive(&path) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(Failure::new("another `sandbox collect` waits for these results")),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            printer.warning("the file system has no locks: run only one `sandbox collect`");
            Ok(None)
        }
        Err(error) => Err(Failure::doing(format!("lock `{}`", path.display()))(error)),
    }
}

/// Whether the API was busy. The exit code of a command is its own.
fn is_to_be_repeated(record: &RunResult) -> bool {
    record.outcome.agent.is_some() && record.outcome.exit_code == ExitStatus::TryLater.code()
}

impl Submitted {
    fn open(folder: &Path, environment: &Environment) -> Result<Self, Failure> {
        let resolver = Places::find(environment)?.resolver_without_tree()?;
        let (folder, submission) = Submission::open(folder, &resolver)?;
        Ok(Self { folder, submission, slurm: Slurm::new(environment) })
    }

    fn child(&self, name: &str) -> Result<Option<Found>, Failure> {
        match self.folder.child(OsStr::new(name)) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The results of attempts that have no final name, by the numbers of their bundles.
    fn attempts(&self) -> Result<Attempts, Failure> {
        let mut attempts = Attempts::new();
        let Some(all) = self.child(Submission::ATTEMPTS)? else { return Ok(attempts) };
        for name in all.names()? {
            let number = name.to_str().and_then(|name| name.split_once('-')?.0.parse().ok());
            if let Some(number) = number {
                attempts.entry(number).or_default().push(name);
            }
        }
        Ok(attempts)
    }

    /// Marks the bundles that `is_named` selects and that have no result; returns those that had no mark.
    fn mark_cancelled(&self, is_named: impl Fn(&u32) -> bool) -> Result<Vec<u32>, Failure> {
        let marks = self.folder.path().join(Submission::CANCELLED);
        let failed = || Failure::doing(format!("write to `{}`", marks.display()));
        create_folder(&marks, 0o700).map_err(failed())?;
        let (results, mut marked) = (self.results()?, Vec::new());
        for (number, _) in self.submission.numbered().filter(|(number, _)| is_named(number)) {
            let mark = marks.join(number.to_string());
            if !mark.exists() && !results.contains(&number) {
                fs::write(&mark, "").map_err(failed())?;
                marked.push(number);
            }
        }
        Ok(marked)
    }

    /// The numbers of the bundles with a result. A cache of a network file system hides none.
    fn results(&self) -> Result<BTreeSet<u32>, Failure> {
        let names = self.folder.names()?;
        let number =
            |name: &OsString| name.to_str()?.parse().ok().filter(|number: &u32| *name == *number.to_string());
        Ok(names.iter().filter_map(number).collect())
    }

    fn is_cancelled(&self, number: u32) -> bool {
        self.folder.path().join(Submission::CANCELLED).join(number.to_string()).exists()
    }

    /// Compares `secrets` with those that the bundles without a result take.
    ///
    /// # Errors
    ///
    /// If one is missing that a bundle requires.
    fn compare(&self, secrets: Option<&BTreeMap<String, String>>, printer: Printer) -> Result<(), Failure> {
        let (results, mut takes_any) = (self.results()?, false);
        for (number, task) in self.submission.numbered().filter(|(_, task)| !task.takes.is_empty()) {
            if results.contains(&number) || self.is_cancelled(number) {
                continue;
            }
            takes_any = true;
            let missing =
                task.requires.iter().find(|name| secrets.is_some_and(|all| !all.contains_key(*name)));
            if let Some(name) = missing {
                let problem =
                    format!("`{}` requires {}, which stdin does not have", task.name(), sanitize_name(name));
                return Err(Failure::usage(problem).with_hint("give all secrets in one JSON object"));
            }
        }
        if takes_any && secrets.is_none() {
            printer.warning(
                "jobs that take secrets end after 10 minutes without them: give them with --secrets-stdin",
            );
        }
        Ok(())
    }

    /// The verified result of a bundle. A job that was killed before it could name its result is helped.
    fn result(
        &self,
        number: u32,
        task: &SubmittedTask,
        attempts: &[OsString],
    ) -> Result<Option<RunResult>, Failure> {
        let name = number.to_string();
        let all = if attempts.is_empty() { None } else { self.child(Submission::ATTEMPTS)? };
        // One that gets its final name meanwhile is gone.
        for attempt in all.iter().flat_map(|all| attempts.iter().filter_map(|name| all.child(name).ok())) {
            if record_of(&attempt).is_ok_and(|record| !is_to_be_repeated(&record)) {
                // An attempt that is active does the same, and only one succeeds.
                let _ = place(attempt.path(), &self.folder.path().join(&name));
            }
        }
        let Some(found) = self.child(&name)? else { return Ok(None) };
        let verify = || -> anyhow::Result<RunResult> {
            let (record, changes) = verified(&found)?;
            record.outcome.changes.verify(changes.file()?, CHANGES)?;
            anyhow::ensure!(record.outcome.bundle == task.digest, "it is the result of another bundle");
            Ok(record)
        };
        let shown = sanitize_name(&found.path().display().to_string());
        verify().map(Some).map_err(Failure::doing(format!("verify `{shown}`")))
    }

    fn rows(&self) -> Result<Vec<Row>, Failure> {
        let jobs = self.slurm.jobs(&self.submission.job_name())?;
        let attempts = self.attempts()?;
        let row = |(number, task): (u32, &SubmittedTask)| {
            let job = jobs.get(&number);
            let result = self.child(&number.to_string())?;
            let record = result.as_ref().and_then(|result| record_of(result).ok());
            let state = match (&result, job) {
                (Some(_), _) => "DONE",
                (None, job) if job.is_none_or(Job::has_ended) && self.is_cancelled(number) => "CANCELLED",
                (None, Some(job)) => &job.state,
                (None, None) => "GONE",
            };
            let agent = record.as_ref().and_then(|record| record.outcome.agent.as_ref());
            Ok(Row {
                number,
                bundle: task.name(),
                state: state.to_owned(),
                node: job.map(|job| job.node.clone()).filter(|node| !node.is_empty()),
                reason: job
                    .filter(|job| job.state == "PENDING" && job.reason != "None")
                    .map(|job| job.reason.clone()),
                exit_code: record.as_ref().map(|record| record.outcome.exit_code),
                outcome: agent.map(|agent| agent.summary.outcome.as_str()),
                retries: attempts.get(&number).map_or(0, Vec::len),
            })
        };
        self.submission.numbered().map(row).collect()
    }

    /// One look at a bundle.
    ///
    /// # Errors
    ///
    /// If Slurm does not answer, or `munge`: the next look may succeed.
    fn look(
        &self,
        number: u32,
        (jobs, attempts): (&BTreeMap<u32, Job>, &Attempts),
        waiting: &mut Waiting,
        printer: Printer,
    ) -> Result<Look, Failure> {
        let Some((_, task)) = self.submission.numbered().find(|(own, _)| *own == number) else {
            return Ok(Look::Done);
        };
        let attempts = attempts.get(&number).map_or(&[][..], Vec::as_slice);
        let result = self.result(number, task, attempts);
        if let Ok(Some(_)) = result {
            return Ok(Look::Done);
        }
        let job = jobs.get(&number);
        if let Some(job) = job.filter(|job| !job.has_ended()) {
            waiting.ended.remove(&number);
            if let Some(secrets) = &waiting.secrets
                && job.state == "RUNNING"
                && !task.takes.is_empty()
                && waiting.given.get(&number) != Some(&job.start)
                && !waiting.silent.contains(&job.node)
            {
                let begun = Instant::now();
                if self.give(job, task, secrets, printer)? {
                    waiting.given.insert(number, job.start.clone());
                    waiting.slow.remove(&number);
                } else if begun.elapsed() > SILENCE {
                    waiting.silent.insert(job.node.clone());
                    waiting.slow.insert(number);
                }
            }
            return Ok(Look::Waits);
        }
        let is_cancelled = self.is_cancelled(number);
        let code = match job.filter(|job| !is_cancelled && job.state == "FAILED") {
            Some(job) => self.slurm.exit_code(job)?,
            None => None,
        };
        let since = *waiting.ended.entry(number).or_insert_with(Instant::now);
        let is_over = since.elapsed() > HIDDEN;
        let mut lost = match (&result, job) {
            _ if is_cancelled => "it was cancelled".to_owned(),
            (Err(failure), _) => failure.to_string(),
            (_, None) => "Slurm does not know its job".to_owned(),
            (_, Some(job)) => format!("its job is {}", sanitize_name(&job.state)),
        };
        if code == Some(ExitStatus::TryLater.code()) && result.is_ok() {
            if waiting.secrets.is_none() && !task.takes.is_empty() {
                "it takes secrets, and --secrets-stdin was not given".clone_into(&mut lost);
            } else if let Some(job) = job
                // A command may end with the same code, and its result be hidden.
                && (is_over || attempts.len() > waiting.retries.get(&number).map_or(0, |made| *made as usize))
            {
                return self.retry((number, attempts.len()), job, waiting, printer);
            }
        }
        let has_ended = match result {
            // There is one, which is not valid, or is not visible as a whole.
            Err(_) => is_over,
            Ok(_) => (is_over || is_cancelled) && !self.results()?.contains(&number),
        };
        Ok(if has_ended { Look::Lost(lost) } else { Look::Waits })
    }

    /// Queues a job again. It cannot do that itself: Slurm would end it meanwhile.
    fn retry(
        &self,
        (number, attempts): (u32, usize),
        job: &Job,
        waiting: &mut Waiting,
        printer: Printer,
    ) -> Result<Look, Failure> {
        let before = u32::try_from(attempts).unwrap_or(u32::MAX).saturating_sub(1);
        let retries = waiting.retries.entry(number).or_default();
        let before = before.max(*retries);
        if before + 1 >= MOST_ATTEMPTS {
            return Ok(Look::Lost(format!("{MOST_ATTEMPTS} attempts ended with exit code 75")));
        }
        let delay = waiting.retry_delay.as_secs().saturating_mul(1 << before);
        self.slurm.run("scontrol", ["requeue", &job.element], b"")?;
        *retries += 1;
        waiting.ended.remove(&number);
        let (job, start) = (format!("JobId={}", job.element), format!("StartTime=now+{delay}"));
        match self.slurm.run("scontrol", ["update", &job, &start], b"") {
            Ok(_) => printer.message(format_args!("{number} is tried again in {delay} s")),
            Err(failure) => {
                printer.failure(&failure);
                printer.warning(format_args!("{number} is tried again after Slurm's own delay"));
            }
        }
        Ok(Look::Waits)
    }

    /// Gives a job its secrets, and no others; returns whether it took them.
    fn give(
        &self,
        job: &Job,
        task: &SubmittedTask,
        secrets: &BTreeMap<String, String>,
        printer: Printer,
    ) -> Result<bool, Failure> {
        let taken: BTreeMap<_, _> = secrets.iter().filter(|(name, _)| task.takes.contains(*name)).collect();
        let sealed = sealed(&self.slurm, &serde_json::to_vec(&taken)?)?;
        let program = std::env::current_exe().map_err(Failure::doing("find this program's file"))?;
        // A node that is gone may never answer.
        let step = ["--kill-after=5", "30", "srun", &format!("--jobid={}", job.id), "--overlap"];
        let step = step.into_iter().chain(["--ntasks=1", "--export=PATH"]);
        let step = step.map(OsStr::new).chain([program.as_os_str()]);
        let arguments = step.chain(["job", "--secrets", "--local"].map(OsStr::new));
        let arguments = arguments.chain([self.submission.local.as_os_str(), self.folder.path().as_os_str()]);
        let given = self.slurm.run("timeout", arguments, sealed.as_bytes());
        if let Err(failure) = &given {
            // It may not listen yet, or have ended.
            printer.note(format_args!("{} has no secrets yet: {failure}", plain_or_quoted(&job.element)));
        }
        Ok(given.is_ok())
    }
}

impl Row {
    fn cells(self) -> Vec<String> {
        let Self { number, bundle, state, node, reason, exit_code, outcome, retries } = self;
        let code = exit_code.map(|code| code.to_string()).unwrap_or_default();
        let code = outcome.map_or(code.clone(), |outcome| format!("{code} ({outcome})"));
        let node = plain_or_quoted(&node.unwrap_or_else(|| "-".to_owned()));
        let reason = reason.map(|reason| format!(" ({})", sanitize_name(&reason))).unwrap_or_default();
        let state = format!("{}{reason}", sanitize_name(&state));
        vec![number.to_string(), bundle, state, node, code, retries.to_string()]
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use sandbox::host_path::Resolver;
    use sandbox_bundle::Digest;

    use super::*;

    /// A submission of one bundle in the folder `results` of `top`.
    fn submitted(top: &Path, takes: &[&str], slurm: Slurm) -> Submitted {
        for folder in ["results", "results/cancelled"] {
            fs::create_dir(top.join(folder)).unwrap();
        }
        let mut submission = Submission::new("/a".into(), Digest::of(b"a"), Vec::new(), "/local".into());
        let takes: BTreeSet<String> = takes.iter().map(|&name| name.to_owned()).collect();
        submission.tasks.push(SubmittedTask {
            bundle: "/a.bundle".into(),
            digest: Digest::of(b"a"),
            is_trusted: true,
            requires: takes.clone(),
            takes,
        });
        let folder = Resolver::new([""; 0]).find(&top.join("results")).unwrap();
        Submitted { folder, submission, slurm }
    }

    #[test]
    fn secrets_without_a_required_one_are_refused_while_a_bundle_waits_for_it() {
        let top = tempfile::tempdir().unwrap();
        let submitted = submitted(top.path(), &["TOKEN"], Slurm::new(&Environment::from([("", ""); 0])));
        let compare = |name: &str| {
            let secrets = BTreeMap::from([(name.to_owned(), "x".to_owned())]);
            submitted.compare(Some(&secrets), Printer::new(0, true))
        };
        assert!(compare("TOKEN").is_ok());
        let refused = compare("token").unwrap_err().to_string();
        assert_eq!(refused, "`a.bundle` requires TOKEN, which stdin does not have");
        assert!(submitted.compare(None, Printer::new(0, true)).is_ok());
        fs::create_dir(top.path().join("results/1")).unwrap();
        assert!(compare("token").is_ok());
    }

    #[test]
    fn bundle_whose_api_was_busy_is_tried_again_unless_it_was_cancelled() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        let script = format!("#!/bin/sh\necho \"$*\" >> '{}'\necho ExitCode=75:0\n", at("calls").display());
        fs::write(at("scontrol"), script).unwrap();
        fs::set_permissions(at("scontrol"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", top.path().display());
        let slurm = Slurm::new(&Environment::from([("PATH", path.as_str())]));
        let submitted = submitted(top.path(), &[], slurm);
        let job = Job {
            element: "8_1".to_owned(),
            id: "9".to_owned(),
            state: "FAILED".to_owned(),
            start: String::new(),
            node: String::new(),
            reason: String::new(),
        };
        let jobs = BTreeMap::from([(1, job)]);
        let (hidden, evident) = (Attempts::new(), Attempts::from([(1, vec!["1-a".into()])]));
        let mut waiting = Waiting { retry_delay: Duration::from_secs(7), ..Waiting::default() };
        let mut look = |attempts: &Attempts| {
            submitted.look(1, (&jobs, attempts), &mut waiting, Printer::new(0, true)).unwrap()
        };
        let show = "--oneliner show job 8_1\n";
        assert!(matches!(look(&hidden), Look::Waits));
        assert_eq!(fs::read_to_string(at("calls")).unwrap(), show, "its result may not be visible yet");
        assert!(matches!(look(&evident), Look::Waits));
        let expected = format!("{show}{show}requeue 8_1\nupdate JobId=8_1 StartTime=now+7\n");
        assert_eq!(fs::read_to_string(at("calls")).unwrap(), expected);
        fs::write(at("results/cancelled/1"), "").unwrap();
        assert!(matches!(look(&evident), Look::Lost(reason) if reason == "it was cancelled"));
        assert_eq!(fs::read_to_string(at("calls")).unwrap(), expected, "no further retry");
    }
}
