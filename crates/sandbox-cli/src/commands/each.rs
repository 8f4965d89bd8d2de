//! `agent --each`: an agent for each line of a file, each in a work tree of its own.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sandbox::host_path::Resolver;
use sandbox_files::FileLock;
use serde::Serialize;
use tokio::task::JoinSet;

use super::runs::RunReport;
use crate::args::{AgentArgs, AgentOutput, EachTask};
use crate::control::{Request, Runs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Interrupts};
use crate::network_log::blocked_hosts;
use crate::owner::Starting;
use crate::printer::{Printer, sanitize_name};
use crate::run_folder;
use crate::run_record::{RunRecord, digest};
use crate::settings::Project;
use crate::table::aligned;
use crate::work_tree::WorkTrees;

/// Bytes of the file.
const FILE: u64 = 16 << 20;
/// Bytes of a line: it becomes an argument of a process.
const LINE: usize = 100_000;
/// The time after which a run is asked again to stop.
const AGAIN: Duration = Duration::from_secs(15);
/// Characters of a prompt that are shown, and that name a work tree.
const SHOWN: usize = 40;

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct EachReport<'a> {
    version: u32,
    agents: Vec<AgentReport<'a>>,
}

#[derive(Debug, Serialize)]
struct AgentReport<'a> {
    branch: &'a str,
    prompt: &'a str,
    /// `None` if it was not started.
    run: Option<RunReport>,
    /// The first hosts that no rule allows.
    blocked_hosts: Vec<String>,
}

/// Runs them, prints a table, and returns the status of the first that failed.
pub(super) async fn each(
    args: &AgentArgs,
    project: &Project,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if args.output == AgentOutput::StreamJson {
        return Err(Failure::usage("--each prints no events")
            .with_hint("use `--output json`, or `sandbox attach RUN`"));
    }
    let trees = WorkTrees::of(project)?;
    let tasks = read(args.each.as_deref().unwrap_or(Path::new("-")), &project.resolver)?;
    let lock = project.places.state.join(format!("each-{}.lock", project.key));
    let Some(_lock) = FileLock::try_exclusive(&lock).map_err(Failure::doing("lock the project"))? else {
        return Err(Failure::new("another `sandbox agent --each` is running in this project")
            .with_hint("wait for its end, or stop it"));
    };
    let mut agents = Agents::of(&tasks, &trees, project.places.all_logs())?;
    while agents.interrupt.is_none() {
        if agents.running.len() < args.jobs.get() && agents.next < tasks.len() {
            agents.next += 1;
            agents.begin(agents.next - 1, printer).await;
            continue;
        }
        tokio::select! {
            biased;
            interrupt = agents.interrupts.next() => agents.interrupt = Some(interrupt),
            ended = agents.running.join_next() => match ended {
                Some(ended) => agents.end(ended.map_err(Failure::doing("wait for the end of a run"))?, printer).await,
                None => break,
            },
        }
    }
    if agents.interrupt.is_some() {
        agents.stop(&project.places.state, printer).await?;
    }
    let status = print(&agents, args.output, printer);
    Ok(match agents.interrupt {
        None => status,
        Some(interrupt) => {
            printer.hint("the same command continues with the rest");
            ExitStatus::Interrupted(interrupt)
        }
    })
}

/// The tasks of the file, with names.
fn read(file: &Path, resolver: &Resolver) -> Result<Vec<EachTask>, Failure> {
    let shown = sanitize_name(&file.display().to_string());
    let failed = || Failure::doing(format!("read `{shown}`"));
    let text = if file == Path::new("-") {
        let text = io::read_to_string(io::stdin().take(FILE + 1)).map_err(failed())?;
        if text.len() as u64 > FILE {
            return Err(Failure::usage("the tasks on stdin are too long").with_hint("split them"));
        }
        text
    } else {
        let read = resolver.read(&std::path::absolute(file)?, FILE)?;
        let (_, bytes) = read.ok_or_else(|| Failure::usage(format!("`{shown}` does not exist")))?;
        String::from_utf8(bytes).map_err(io::Error::other).map_err(failed())?
    };
    // A problem may contain text of the file.
    parse(&text)
        .map_err(|(line, problem)| Failure::usage(format!("{shown}:{line}: {}", sanitize_name(&problem))))
}

fn parse(text: &str) -> Result<Vec<EachTask>, (usize, String)> {
    let mut tasks: Vec<EachTask> = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let problem = |problem: String| (number, problem);
        let mut task: EachTask = line.trim().parse().map_err(problem)?;
        if matches!(task.prompt.trim(), "" | "-") {
            return Err(problem("the prompt must be a text".to_owned()));
        }
        if task.name.is_empty() {
            task.name = name(&task.prompt);
        }
        if argument(&task).len() > LINE {
            return Err(problem(format!("a line must have at most {LINE} bytes, as JSON")));
        }
        if tasks.iter().any(|other| other.name.eq_ignore_ascii_case(&task.name)) {
            let name = &task.name;
            return Err(problem(format!(
                "`{name}` is the name of an earlier line; set another `name` with JSON"
            )));
        }
        tasks.push(task);
    }
    Ok(tasks)
}

/// A name for a work tree and a branch, from the first words of a prompt; the same one for the same
/// prompt.
fn name(prompt: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let text: String = prompt.chars().take(SHOWN).map(word).collect();
    let digest = digest(prompt);
    let short = digest.get(..6).unwrap_or_default();
    text.split_whitespace().chain([short]).collect::<Vec<_>>().join("-")
}

/// The agents of all tasks, in the order of the file.
struct Agents<'a> {
    tasks: &'a [EachTask],
    trees: &'a WorkTrees<'a>,
    all_logs: PathBuf,
    /// The folder of the run of each task, once there is one.
    runs: Vec<Option<PathBuf>>,
    /// The numbers of tasks that run; whether this process started them.
    running: JoinSet<(usize, bool)>,
    next: usize,
    ended: usize,
    failed_in_a_row: usize,
    interrupts: Interrupts,
    interrupt: Option<Interrupt>,
}

impl<'a> Agents<'a> {
    fn of(tasks: &'a [EachTask], trees: &'a WorkTrees<'a>, all_logs: PathBuf) -> Result<Self, Failure> {
        Ok(Self {
            tasks,
            trees,
            all_logs,
            runs: vec![None; tasks.len()],
            running: JoinSet::new(),
            next: 0,
            ended: 0,
            failed_in_a_row: 0,
            interrupts: Interrupts::listen().map_err(Failure::doing("listen for signals"))?,
            interrupt: None,
        })
    }

    /// Starts the agent of a task, unless it ran before. No further ones are started after the
    /// first, or two in a row, failed to start: the cause is often the same.
    async fn begin(&mut self, number: usize, printer: Printer) {
        let Some(task) = self.tasks.get(number) else { return };
        let known = last_run(&self.trees.logs(&task.name), &task.prompt);
        let is_started = known.is_none();
        let folder = match known {
            Some(folder) => Ok(Some(folder)),
            None => self.start(task).await,
        };
        let folder = folder.unwrap_or_else(|failure| {
            printer.failure(&failure);
            None
        });
        let Some(folder) = folder else {
            self.failed_in_a_row += 1;
            if self.failed_in_a_row == 2 || self.runs.iter().all(Option::is_none) {
                self.next = self.tasks.len();
            }
            return;
        };
        self.failed_in_a_row = 0;
        if let Some(run) = self.runs.get_mut(number) {
            *run = Some(folder.clone());
        }
        self.running.spawn_blocking(move || {
            run_folder::wait_for_end(&folder);
            (number, is_started)
        });
    }

    /// Reports the end of a task's run, or starts the task if the run that was waited for had
    /// another prompt.
    async fn end(&mut self, (number, is_started): (usize, bool), printer: Printer) {
        let (Some(task), Some(Some(folder))) = (self.tasks.get(number), self.runs.get(number)) else {
            return;
        };
        let is_ours = RunRecord::read(folder).is_some_and(|record| record.has_prompt(&task.prompt));
        if !(is_started || is_ours) {
            self.runs.get_mut(number).map(Option::take);
            return Box::pin(self.begin(number, printer)).await;
        }
        self.ended += 1;
        let (ended, all) = (self.ended, self.tasks.len());
        let state = RunReport::of_folder(folder).state_text();
        printer.progress(&format!("{}: {state} ({ended} of {all})", task.name));
    }

    /// Starts the agent of a task in the background, and returns the folder of its run; `None` if it
    /// failed to start, which was reported on stderr.
    #[expect(clippy::disallowed_methods, reason = "it starts this program itself")]
    async fn start(&mut self, task: &EachTask) -> Result<Option<PathBuf>, Failure> {
        let mut command = std::process::Command::new("/proc/self/exe");
        command.arg(format!("--task={}", argument(task))).args(std::env::args_os().skip(1));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        // The terminal's signals reach it from here.
        let child = command.process_group(0).spawn();
        let child = child.map_err(Failure::doing("start the process of an agent"))?;
        let pid = child.id();
        let mut ended = tokio::task::spawn_blocking(|| child.wait_with_output());
        let output = loop {
            tokio::select! {
                ended = &mut ended => break ended.map_err(io::Error::other).flatten(),
                interrupt = self.interrupts.next() => {
                    self.interrupt = Some(interrupt);
                    // It is still our child: it has not been waited for.
                    Starting::signal(pid, interrupt);
                }
            }
        };
        let output = output.map_err(Failure::doing("wait for the start of an agent"))?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let is_started = output.status.success() && !id.is_empty();
        is_started.then(|| run_folder::find_in_all(&self.all_logs, &id)).transpose()
    }

    /// Stops those that run, and waits for their ends, or for another signal.
    async fn stop(&mut self, state: &Path, printer: Printer) -> Result<(), Failure> {
        let is_other = |task: &EachTask, folder: &Path| {
            RunRecord::read(folder).is_some_and(|record| !record.has_prompt(&task.prompt))
        };
        let ours = self.tasks.iter().zip(self.runs.iter().cloned());
        let ours = ours.filter_map(|(task, folder)| folder.filter(|folder| !is_other(task, folder)));
        let ours: Vec<PathBuf> = ours.collect();
        let ids: Vec<String> = ours.iter().map(|folder| RunReport::of_folder(folder).id).collect();
        let request = Request::Stop {};
        while ours.iter().any(|folder| run_folder::is_running(folder)) {
            let runs = Runs::find(state, printer).await?;
            let found = runs.all().iter().filter(|run| ids.contains(&run.run));
            futures_util::future::join_all(found.map(|run| runs.ask(run, &request))).await;
            tokio::select! {
                // A run that did not answer is asked again.
                _ = tokio::time::timeout(AGAIN, self.running.join_next()) => {}
                _ = self.interrupts.next() => break,
            }
        }
        Ok(())
    }
}

/// The newest run in the work tree with these logs whose agent has this prompt, and is running or
/// succeeded.
fn last_run(logs: &Path, prompt: &str) -> Option<PathBuf> {
    let counts = |folder: &PathBuf| match (RunRecord::read(folder), run_folder::is_running(folder)) {
        // It is being prepared.
        (None, is_running) => is_running,
        (Some(record), is_running) => {
            record.has_prompt(prompt) && (is_running || record.end.is_some_and(|end| end.exit_code == 0))
        }
    };
    run_folder::folders(logs).into_iter().rev().find(counts)
}

/// The task as an argument of a process.
fn argument(task: &EachTask) -> String {
    // Serializing texts cannot fail.
    serde_json::to_string(task).unwrap_or_default()
}

/// Prints them, and returns the status of the first that failed.
fn print(agents: &Agents<'_>, output: AgentOutput, printer: Printer) -> ExitStatus {
    let reports: Vec<AgentReport<'_>> = agents
        .tasks
        .iter()
        .zip(&agents.runs)
        .map(|(task, folder)| AgentReport {
            branch: &task.name,
            prompt: &task.prompt,
            run: folder.as_deref().map(RunReport::of_folder),
            blocked_hosts: folder.as_deref().map(blocked_hosts).unwrap_or_default(),
        })
        .collect();
    let code = |report: &AgentReport<'_>| report.run.as_ref().and_then(|run| run.exit_code);
    let failed = reports.iter().map(code).find(|code| *code != Some(0));
    let status = failed
        .map_or(ExitStatus::Success, |code| code.map_or(ExitStatus::Infrastructure, ExitStatus::Command));
    if output == AgentOutput::Json {
        // Serializing texts and numbers cannot fail.
        printer.line(serde_json::to_string(&EachReport { version: 1, agents: reports }).unwrap_or_default());
        return status;
    }
    let head = ["BRANCH", "RUN", "STATE", "COST", "BLOCKED", "PROMPT"].map(str::to_owned).to_vec();
    let row = |report: &AgentReport<'_>| {
        let run = report.run.as_ref();
        let prompt: String = report.prompt.chars().take(SHOWN).collect();
        [
            report.branch.to_owned(),
            run.map(|run| sanitize_name(&run.id)).unwrap_or_default(),
            run.map_or_else(|| "not started".to_owned(), RunReport::state_text),
            run.and_then(RunReport::cost_text).unwrap_or_default(),
            report.blocked_hosts.join(" "),
            sanitize_name(&prompt),
        ]
        .to_vec()
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(reports.iter().map(row)).collect();
    for line in aligned(&rows) {
        printer.line(line);
    }
    status
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_become_tasks_with_names_of_their_own() {
        let tasks = parse(
            "Fix the login test!\n\n{\"prompt\": \"b\\nc\", \"name\": \"docs\", \"model\": \"opus\"}\n",
        )
        .unwrap();
        assert_eq!(tasks[0].prompt, "Fix the login test!");
        assert!(tasks[0].name.starts_with("fix-the-login-test-"), "{}", tasks[0].name);
        assert_eq!(tasks[0].name, name("Fix the login test!"));
        assert_ne!(name("a!"), name("a?"));
        assert_eq!((tasks[1].prompt.as_str(), tasks[1].name.as_str()), ("b\nc", "docs"));
        assert_eq!(tasks[1].model.as_deref(), Some("opus"));
        for prompt in ["-- --", "é", "a".repeat(500).as_str()] {
            assert!(
                format!("{{\"prompt\": \"x\", \"name\": \"{}\"}}", name(prompt)).parse::<EachTask>().is_ok()
            );
        }
        for (text, at, problem) in [
            ("a\n{", 2, "EOF"),
            ("{\"prompt\": \"a\", \"names\": \"b\"}", 1, "unknown field"),
            ("{\"prompt\": \"a\", \"name\": \"../b\"}", 1, "`name`: use letters"),
            ("{\"prompt\": \" \"}", 1, "must be a text"),
            ("-", 1, "must be a text"),
            ("{\"prompt\": \"a\", \"name\": \"HEAD\"}", 1, "`name`: use letters"),
            ("a\nb\na", 3, "an earlier line"),
        ] {
            let (line, message) = parse(text).unwrap_err();
            assert!(line == at && message.contains(problem), "{text}: {line}: {message}");
        }
    }

    #[test]
    fn run_with_the_same_prompt_counts_if_it_is_active_or_succeeded() {
        let logs = tempfile::tempdir().unwrap();
        let folder = logs.path().join("19700101T000001.500000-aa01");
        fs::create_dir(&folder).unwrap();
        let last = || last_run(logs.path(), "a");
        assert_eq!(last(), None);
        let record = |prompt, code| {
            let record = RunRecord::begin(Path::new("/srv"), &["agent".to_owned()]);
            let record = record.with_session("claude", "/s".into(), "c").with_prompt(Some(prompt));
            record.finished(code).write(&folder).unwrap();
        };
        record("a", 1);
        assert_eq!(last(), None);
        record("b", 0);
        assert_eq!(last(), None);
        record("a", 0);
        assert_eq!(last(), Some(folder.clone()));
        record("a", 1);
        let lock = fs::File::create(folder.join("running")).unwrap();
        lock.lock().unwrap();
        assert_eq!(last(), Some(folder.clone()));
        record("b", 0);
        assert_eq!(last(), None);
        fs::remove_file(folder.join("run.json")).unwrap();
        assert_eq!(last(), Some(folder.clone()));
    }
}
