//! Slurm's programs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::geteuid;
use sandbox_files::search_path;

use crate::config::Environment;
use crate::failure::Failure;
use crate::printer::sanitize_name;

/// The columns of a job: its array, number in it, own id, state, start, nodes, and why it waits.
const COLUMNS: &str = "%F|%K|%A|%T|%S|%N|%r";
/// The states from which a job does not go on by itself.
const ENDED: [&str; 10] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
];

/// Slurm's programs, with the variables that they get: no credentials, since Slurm stores a job's.
#[derive(Debug)]
pub(crate) struct Slurm {
    variables: Vec<(OsString, OsString)>,
}

/// A job as Slurm knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// The array and the number in it, which all programs but `srun` take.
    pub(crate) element: String,
    pub(crate) id: String,
    pub(crate) state: String,
    /// The time of its start, which a retry changes.
    pub(crate) start: String,
    pub(crate) node: String,
    pub(crate) reason: String,
}

impl Job {
    /// Whether it has a process.
    pub(crate) fn has_begun(&self) -> bool {
        ["COMPLETING", "CONFIGURING", "RUNNING", "STOPPED", "SUSPENDED"].contains(&self.state.as_str())
    }

    /// Whether it does not go on by itself.
    pub(crate) fn has_ended(&self) -> bool {
        ENDED.contains(&self.state.as_str())
    }
}

impl Slurm {
    pub(crate) fn new(environment: &Environment) -> Self {
        let path = environment.exact("PATH").and_then(search_path);
        let path = path.map(|path| ("PATH".into(), path));
        Self { variables: environment.of_slurm().into_iter().chain(path).collect() }
    }

    /// Runs `program`, and returns its output.
    ///
    /// # Errors
    ///
    /// If it fails; with its message.
    #[expect(clippy::disallowed_methods, reason = "Slurm's programs are its interface")]
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Result<String, Failure> {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = output(command, input).map_err(|error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let failure = Failure::doing(format!("run `{program}`"))(error);
            if is_missing {
                failure.with_hint("run this on a host of the cluster that has Slurm's programs in PATH")
            } else {
                failure
            }
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = sanitize_name(&String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "));
        Err(Failure::new(format!("`{program}` failed ({}): {message}", output.status)))
    }

    /// The jobs with this name by their number in the array. Slurm forgets one some minutes after its end.
    pub(crate) fn jobs(&self, name: &str) -> Result<BTreeMap<u32, Job>, Failure> {
        let user = format!("--user={}", geteuid().as_raw());
        let flags = ["--noheader", "--array", &user, "--states=all", "--format", COLUMNS, "--name", name];
        self.run("squeue", flags, b"").map(|text| listed(&text))
    }

    /// The exit code of a job that has ended.
    pub(crate) fn exit_code(&self, job: &Job) -> Result<Option<u8>, Failure> {
        let text = self.run("scontrol", ["--oneliner", "show", "job", &job.element], b"")?;
        Ok(exit_code(&text))
    }
}

/// Runs `command` with `input`.
fn output(mut command: Command, input: &[u8]) -> io::Result<std::process::Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        // Its exit code says whether it needed all of it.
        scope.spawn(move || stdin.and_then(|mut stdin| stdin.write_all(input).ok()));
        child.wait_with_output()
    })
}

/// The jobs in the output of squeue, those that have not ended before others with the same number.
fn listed(text: &str) -> BTreeMap<u32, Job> {
    let mut jobs = BTreeMap::new();
    for line in text.lines() {
        let mut columns = line.trim().splitn(7, '|').map(str::to_owned);
        let mut next = || columns.next().unwrap_or_default();
        let [array, number, id, state, start, node, reason] = [(); 7].map(|()| next());
        let Ok(number) = number.parse() else { continue };
        let job = Job { element: format!("{array}_{number}"), id, state, start, node, reason };
        let known = jobs.get(&number).is_some_and(|known: &Job| !known.has_ended());
        if !known {
            jobs.insert(number, job);
        }
    }
    jobs
}

/// The code in a line of `scontrol show job`; of one that a signal ended, there is none.
fn exit_code(line: &str) -> Option<u8> {
    let codes = line.split_whitespace().find_map(|word| word.strip_prefix("ExitCode="))?;
    match codes.split_once(':')? {
        (code, "0") => code.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_listed_by_number_and_active_ones_first() {
        let text = "8|1|9|RUNNING|t|node1|None\n8|2|10|FAILED|t|node2|NonZeroExitCode\n8|3|8|PENDING|t||(a|b) c\n\
                    8|1|7|FAILED|t|node3|None\n8|N/A|8|PENDING|t||None\n";
        let jobs = listed(text);
        assert_eq!(jobs.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((jobs[&1].element.as_str(), jobs[&1].id.as_str()), ("8_1", "9"));
        assert_eq!((jobs[&1].node.as_str(), jobs[&1].has_ended()), ("node1", false));
        assert!(jobs[&2].has_ended());
        assert_eq!((jobs[&3].node.as_str(), jobs[&3].reason.as_str()), ("", "(a|b) c"));
    }

    #[test]
    fn exit_code_is_that_of_the_program_and_not_of_a_signal() {
        let line = |code: &str| exit_code(&format!("JobId=9 JobState=FAILED ExitCode={code} NodeList=x"));
        assert_eq!(line("75:0"), Some(75));
        assert_eq!((line("0:15"), line("x"), exit_code("JobId=9")), (None, None, None));
    }

    #[test]
    fn credentials_of_the_environment_reach_no_program() {
        let environment = Environment::from([
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/root"),
            ("ANTHROPIC_API_KEY", "secret"),
            ("SLURM_CONF", "/x"),
            ("SLURM_JOB_ID", "7"),
            ("SBATCH_PARTITION", "main"),
        ]);
        let names = Slurm::new(&environment).run("env", [""; 0], b"").unwrap();
        let mut names: Vec<_> = names.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.sort_unstable();
        assert_eq!(names, ["HOME", "PATH", "SBATCH_PARTITION", "SLURM_CONF"]);
        let missing = Slurm::new(&environment).run("no-such-program", [""; 0], b"").unwrap_err();
        assert!(missing.hint().is_some_and(|hint| hint.contains("cluster")), "{missing:?}");
    }
}
