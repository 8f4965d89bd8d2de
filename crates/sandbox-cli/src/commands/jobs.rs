//! `jobs`, `collect`, `cancel`: what became of submitted bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use sandbox::host_path::Found;
use sandbox_bundle::{AgentSummary, RunResult};
use serde::Serialize;

use super::job::place;
use super::result_copy::{record_of, verified};
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
/// Seconds for which `cancel` waits for jobs to end.
const ENDING: u32 = 120;
/// After so many looks, a bundle without an active job has no result.
const LOOKS: u32 = 6;
/// Bytes of secrets.
const MOST_SECRETS: u64 = 1 << 20;

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
    /// Slurm's word, `DONE` if there is a result, `GONE` if there is none and Slurm does not know the job.
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
    /// For how many looks each has had no job that could store a result.
    ended: BTreeMap<u32, u32>,
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
    let active = || -> Result<Vec<String>, Failure> {
        let jobs = submitted.slurm.jobs(&submitted.submission.job_name())?.into_iter();
        let active = jobs.filter(|(number, job)| is_named(number) && !job.has_ended());
        Ok(active.map(|(_, job)| job.element).collect())
    };
    let begun = active()?;
    if begun.is_empty() {
        printer.message("0 cancelled");
        return Ok(ExitStatus::Success);
    }
    let cancel = |flags: &[&str]| {
        let elements = begun.iter().map(String::as_str);
        submitted.slurm.run("scancel", flags.iter().copied().chain(elements), b"")
    };
    // Only to the script, which is this program: it would lose podman otherwise. scancel may fail after it
    // sent the signal.
    let failed = cancel(&["--state=PENDING"]).and(cancel(&["--state=RUNNING", "--batch", "--signal=TERM"]));
    for _ in 0..ENDING {
        if active()?.is_empty() {
            printer.message(format_args!("{} cancelled", begun.len()));
            return Ok(ExitStatus::Success);
        }
        // tidy: sleep: Slurm reports no ends
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    failed?;
    Err(Failure::new("some jobs have not ended yet").with_hint("look at them with `sandbox jobs`"))
}

/// `collect`: waits for all results, and verifies them.
pub(crate) async fn collect(
    args: &CollectArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let submitted = Submitted::open(&args.submission.folder, environment)?;
    let secrets = if args.secrets_stdin { Some(read_secrets()?) } else { None };
    let mut waiting = Waiting { retry_delay: args.retry_delay, secrets, ..Waiting::default() };
    let mut numbers: BTreeSet<u32> = submitted.submission.numbered().map(|(number, _)| number).collect();
    let (mut failed, mut is_reachable) = (BTreeMap::new(), true);
    while !numbers.is_empty() {
        // Before the results: a job that has ended has stored its own.
        match submitted.slurm.jobs(&submitted.submission.job_name()) {
            Ok(jobs) => {
                is_reachable = true;
                numbers.retain(|number| match submitted.look(*number, &jobs, &mut waiting, printer) {
                    Ok(Look::Waits) => true,
                    Ok(Look::Done) => false,
                    Ok(Look::Lost(reason)) => {
                        failed.insert(*number, reason);
                        false
                    }
                    Err(failure) => {
                        printer.warning(format_args!("{number}: {failure}"));
                        true
                    }
                });
            }
            Err(failure) => {
                if is_reachable {
                    printer.failure(&failure);
                    printer.warning("jobs go on without Slurm's controller; waiting for it");
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

fn read_secrets() -> Result<BTreeMap<String, String>, Failure> {
    let mut text = Vec::new();
    let failed = Failure::doing("read the variables from stdin");
    io::stdin().lock().take(MOST_SECRETS).read_to_end(&mut text).map_err(failed)?;
    // An error of serde quotes no value but one of another type.
    serde_json::from_slice(&text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Failure::usage(format!(
            "the variables on stdin are not a JSON object of texts, at line {line}, column {column}"
        ))
    })
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

    /// The results of attempts of a bundle that have no final name.
    fn attempts(&self, number: u32) -> Result<Vec<Found>, Failure> {
        let Some(all) = self.child(Submission::ATTEMPTS)? else { return Ok(Vec::new()) };
        let prefix = format!("{number}-");
        let names = all.names()?.into_iter();
        let own = names.filter(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
        // One that gets its final name meanwhile is gone.
        let there = own.filter_map(|name| match all.child(&name) {
            Err(error) if error.is_not_found() => None,
            found => Some(found.map_err(Failure::from)),
        });
        there.collect()
    }

    /// Whether there is a result. A cache of a network file system does not hide it.
    fn has_result(&self, number: u32) -> Result<bool, Failure> {
        Ok(self.folder.names()?.iter().any(|name| *name == OsStr::new(&number.to_string())))
    }

    /// The verified result of a bundle. A job that was killed before it could name its result is helped.
    fn result(&self, number: u32, task: &SubmittedTask) -> Result<Option<RunResult>, Failure> {
        let name = number.to_string();
        for attempt in self.attempts(number)? {
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
        let row = |(number, task): (u32, &SubmittedTask)| {
            let job = jobs.get(&number);
            let result = self.child(&number.to_string())?;
            let record = result.as_ref().and_then(|result| record_of(result).ok());
            let state = match (&result, job) {
                (Some(_), _) => "DONE",
                (None, Some(job)) => &job.state,
                (None, None) => "GONE",
            };
            let agent = record.as_ref().and_then(|record| record.outcome.agent.as_ref());
            Ok(Row {
                number,
                bundle: task.name(),
                state: state.to_owned(),
                node: job.map(|job| job.node.clone()).filter(|node| !node.is_empty()),
                reason: job.filter(|job| job.state == "PENDING").map(|job| job.reason.clone()),
                exit_code: record.as_ref().map(|record| record.outcome.exit_code),
                outcome: agent.map(|agent| {
                    let AgentSummary { outcome, .. } = agent.summary;
                    outcome.as_str()
                }),
                retries: self.attempts(number)?.len(),
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
        jobs: &BTreeMap<u32, Job>,
        waiting: &mut Waiting,
        printer: Printer,
    ) -> Result<Look, Failure> {
        let Some((_, task)) = self.submission.numbered().find(|(own, _)| *own == number) else {
            return Ok(Look::Done);
        };
        match self.result(number, task) {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(Look::Done),
            Err(failure) => return Ok(Look::Lost(failure.to_string())),
        }
        let lost = match jobs.get(&number) {
            None => "Slurm does not know its job".to_owned(),
            Some(job) if !job.has_ended() => {
                waiting.ended.remove(&number);
                if let Some(secrets) = &waiting.secrets
                    && job.state == "RUNNING"
                    && !task.takes.is_empty()
                    && waiting.given.get(&number) != Some(&job.start)
                    && self.give(job, task, secrets, printer)?
                {
                    waiting.given.insert(number, job.start.clone());
                }
                return Ok(Look::Waits);
            }
            Some(job) => match self.slurm.exit_code(job)? {
                Some(code) if code == ExitStatus::TryLater.code() => {
                    if waiting.secrets.is_some() || task.takes.is_empty() {
                        return self.retry(number, job, waiting, printer);
                    }
                    "it takes secrets, and --secrets-stdin was not given".to_owned()
                }
                _ => format!("its job is {}", sanitize_name(&job.state)),
            },
        };
        // The folder may be a moment behind Slurm, and a controller that starts behind its jobs.
        let looks = waiting.ended.entry(number).or_default();
        *looks += 1;
        Ok(if *looks < LOOKS || self.has_result(number)? { Look::Waits } else { Look::Lost(lost) })
    }

    /// Queues a job again. It cannot do that itself: Slurm would end it meanwhile.
    fn retry(
        &self,
        number: u32,
        job: &Job,
        waiting: &mut Waiting,
        printer: Printer,
    ) -> Result<Look, Failure> {
        let before = u32::try_from(self.attempts(number)?.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let retries = waiting.retries.entry(number).or_default();
        let before = before.max(*retries);
        if before + 1 >= MOST_ATTEMPTS {
            return Ok(Look::Lost(format!("{MOST_ATTEMPTS} attempts ended with exit code 75")));
        }
        let delay = waiting.retry_delay.as_secs().saturating_mul(1 << before);
        self.slurm.run("scontrol", ["requeue", &job.element], b"")?;
        *retries += 1;
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
