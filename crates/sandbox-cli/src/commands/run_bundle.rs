//! `run --bundle FILE --result DIR`: the command or agent of a bundle, on a copy of its files.

use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::syncfs;
use sandbox::host_path::Found;
use sandbox::workspace::{WorkspaceCopy, remove_folder};
use sandbox::{CommandResult, ExecutionResult, Network, Outcome};
use sandbox_bundle::{Bundle, Digest, Ended, ReceiptKey, Settings, Task};
use sandbox_files::{FileLock, create_folder, or_absent};
use tokio::sync::oneshot;

use super::agent::{self, AgentSettings};
use super::{bundle, run};
use crate::args::GlobalArgs;
use crate::bundle_result::{EndedAgent, EndedProcess, EndedRun, ResultFolder};
use crate::config::{Environment, Places, is_written_by_others};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::network_log::blocked_hosts;
use crate::printer::{Printer, plain_or_quoted, sanitize_name};
use crate::receipt_key::receipt_key;
use crate::run_context::{Finished, RunContext};
use crate::settings::{BundleFolders, TaskSettings};
use crate::trust::Trust;
use crate::workspace_copy::opened;

pub(super) mod given;

/// The session of an agent in the folder of its copy.
const SESSION_FOLDER: &str = "session";
/// The lock of a folder in the state folder.
const LOCK: &str = "lock";
/// The beginning of the name of a tree that is not complete.
const NEW: &str = "new-";
/// The time for which a tree stays that no run uses.
const KEPT: Duration = Duration::from_hours(30 * 24);

/// What the caller of [`run_bundle`] has for it.
#[derive(Default)]
pub(crate) struct OfCaller<'a> {
    /// The agent's program on this host.
    pub(crate) program: Option<&'a Path>,
    /// The variables that the bundle takes, otherwise those of the environment.
    pub(crate) secrets: Option<&'a mut (dyn Read + Send)>,
    /// The signals since it listens for them.
    pub(crate) interrupts: Option<Interrupts>,
}

/// Runs the command or the agent of the bundle `file`, and stores the result in the new folder `target`.
/// Passes the exit code on.
pub(crate) async fn run_bundle(
    file: &Path,
    target: &Path,
    caller: OfCaller<'_>,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if global.config.is_some() {
        return Err(Failure::usage("--config is for a project, and --bundle reads none"));
    }
    let OfCaller { program, secrets, interrupts } = caller;
    let places = Places::find(environment)?;
    let resolver = places.resolver_without_tree()?;
    let target = ResultFolder::at(target, &resolver)?;
    let found = resolver.find(file)?;
    let bundle = bundle::read(&found)?;
    demand_trust(&found, &bundle, global.trust.as_ref())?;
    if program.is_some() && matches!(bundle.manifest.settings.task, Task::Command(_)) {
        return Err(Failure::usage("--agent-bin is for agents, and the bundle runs a command"));
    }
    let program = program.map(|path| agent::program(path, &resolver)).transpose()?;
    let is_named = matches!(global.trust, Some(Trust::Digest(_)));
    let copies = places.bundle_copies();
    let (tree, folder) = (tree_of(&bundle, &places.trees()), copies.join(unused_name()));
    let layer = CopyFolder::layer(&folder);
    let folders = BundleFolders { places: &places, tree: &tree, copy: &layer };
    let given = match secrets {
        Some(secrets) => &given::read(&bundle.manifest.settings, secrets)?,
        None => environment,
    };
    let (required, _) = bundle::given(&bundle.manifest.settings);
    if let Some(name) = required.into_iter().find(|name| given.exact(name).is_none()) {
        let problem = format!("the bundle takes the variable `{}`, which is not set", name.escape_debug());
        return Err(Failure::new(problem).with_hint("set it, or give all variables with --secrets-stdin"));
    }
    let settings = TaskSettings::of_bundle(&bundle, folders, given, global, environment, printer).await?;
    if !is_named && !settings.sandbox.upstream.allow_addresses.is_empty() {
        let problem =
            "could reach the private networks in `upstream.allow_addresses` of your own sandbox.yaml";
        return Err(unnamed(&found, &bundle, problem));
    }
    let key = receipt_key(&places)?;
    let _tree = unpacked(&found, &bundle, &places.trees()).await?;
    let copy = CopyFolder::create(&copies, folder).await?;
    let (status, ended) = match run_on(&bundle, &settings, program, interrupts, key, &copy, printer).await {
        Ok(ran) => ran,
        Err(failure) => {
            copy.remove(printer);
            return Err(failure);
        }
    };
    let Some(ended) = ended else {
        printer.warning(format_args!("the run has no result: {target} was not created"));
        copy.remove(printer);
        return Ok(status);
    };
    store(target, ended, copy, printer).await.map(|stopped| stopped.unwrap_or(status))
}

/// Writes the result, and removes the copy; after an error, the copy remains. A second signal ends it:
/// then the exit status is returned.
async fn store(
    target: ResultFolder,
    ended: EndedRun,
    copy: CopyFolder,
    printer: Printer,
) -> Result<Option<ExitStatus>, Failure> {
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let (done, mut written) = oneshot::channel();
    let shown = target.to_string();
    // Not on the runtime, whose end would wait for it. It holds the copy until this process has ended.
    thread::spawn(move || drop(done.send((target.write(&ended), copy))));
    let mut is_first = true;
    let (record, copy) = loop {
        tokio::select! {
            written = &mut written => break written.map_err(Failure::doing(format!("write {shown}")))?,
            interrupt = interrupts.next() => {
                if !is_first {
                    printer.warning(format_args!("stopped while {shown} was written: it is complete, or not there"));
                    return Ok(Some(ExitStatus::Interrupted(interrupt)));
                }
                printer.warning(format_args!("{shown} is being written; a second signal stops that"));
                is_first = false;
            }
        }
    };
    let record = match record {
        Ok(record) => record,
        Err(failure) => {
            let hint = format!("the changed files remain in `{}`", copy.keep()?.display());
            return Err(failure.with_hint(hint));
        }
    };
    if !record.outcome.omitted.is_empty() {
        printer.warning(format_args!(
            "{shown} lacks changes that no result can have: see `omitted` in result.json"
        ));
    }
    printer.message(format_args!("{shown}: result {}", record.digest));
    copy.remove(printer);
    Ok(None)
}

/// Runs the command or the agent on `copy`. The second value is missing if it did not end by itself or
/// by its time limit.
async fn run_on(
    bundle: &Bundle,
    settings: &TaskSettings,
    program: Option<PathBuf>,
    interrupts: Option<Interrupts>,
    key: ReceiptKey,
    copy: &CopyFolder,
    printer: Printer,
) -> Result<(ExitStatus, Option<EndedRun>), Failure> {
    let policy = policy_digest(settings)?;
    let mut context = match RunContext::open_until(interrupts, settings, printer).await? {
        Ok(context) => context,
        Err(status) => return Ok((status, None)),
    };
    copy.remove_dead(printer);
    let image = context.image.as_str().to_owned();
    let (status, process, log) = match &bundle.manifest.settings.task {
        Task::Command(command) => {
            let streams = run::Streams::without_input();
            let executed = run::execute(&mut context, command.clone(), streams).await;
            let Finished { status, value, folder, .. } = context.close(executed).await?;
            (status, value.and_then(|result| of_command(status, result)), folder)
        }
        Task::Agent(task) => {
            let session = copy.path.join(SESSION_FOLDER);
            let settings = AgentSettings::of_bundle(task, session.clone(), program, printer);
            let executed = Box::pin(agent::execute(&mut context, settings, None)).await;
            let Finished { status, value, folder, .. } = context.close(executed).await?;
            (status, value.and_then(|result| of_agent(status, result, session)), folder)
        }
    };
    let blocked = blocked_hosts(&log);
    if !blocked.is_empty() {
        printer.warning(format_args!("blocked hosts: {}; see network.jsonl", blocked.join(", ")));
    }
    let Some(process) = process else { return Ok((status, None)) };
    let layer = opened(&CopyFolder::layer(&copy.path))?.filter(|copy| !copy.was_interrupted());
    let layer = layer.ok_or_else(|| Failure::new("the copy of the files is not complete"))?;
    let ended = EndedRun {
        bundle: bundle.digest,
        tree: bundle.manifest.tree,
        policy,
        key,
        exit_code: status.code(),
        process,
        image,
        copy: layer,
        log,
    };
    Ok((status, Some(ended)))
}

/// The digest of the policy at the start, as JSON.
fn policy_digest(settings: &TaskSettings) -> Result<Digest, Failure> {
    match &settings.network {
        Network::Sandboxed(network) => Ok(Digest::of(&serde_json::to_vec(network.allowlist())?)),
        _ => Err(Failure::new("a bundle without a policy cannot have a receipt")),
    }
}

/// The command, if it ended and nothing else decided the exit code.
fn of_command(status: ExitStatus, result: CommandResult) -> Option<EndedProcess> {
    let CommandResult { stdout, stderr, cut, duration, timed_out, stopped, oom_killed, .. } = result;
    let has_ended = match status {
        ExitStatus::Timeout => timed_out,
        ExitStatus::Command(_) => !stopped,
        _ => false,
    };
    let ended = if timed_out { Ended::TimedOut } else { Ended::Exited };
    has_ended.then_some(EndedProcess { ended, stdout, stderr, cut, duration, oom_killed, agent: None })
}

/// The agent with its session in the folder `session`, if its outcome decided the exit code.
fn of_agent(status: ExitStatus, result: ExecutionResult, session: PathBuf) -> Option<EndedProcess> {
    let has_ended = match status {
        ExitStatus::Timeout => result.timed_out,
        ExitStatus::Success | ExitStatus::Negative | ExitStatus::TryLater | ExitStatus::NotFound => {
            result.outcome != Outcome::Stopped
        }
        _ => false,
    };
    let agent = EndedAgent { summary: agent::summary(&result), report: agent::json(&result, None), session };
    let took = result.timings.exited_ms.saturating_sub(result.timings.started_ms);
    has_ended.then(|| EndedProcess {
        ended: if result.timed_out { Ended::TimedOut } else { Ended::Exited },
        stdout: result.stdout,
        stderr: result.stderr,
        cut: result.cut,
        duration: Duration::from_millis(took),
        oom_killed: result.oom_killed,
        agent: Some(agent),
    })
}

/// A digest that is named must be the bundle's. It must be named if the bundle takes variables of this
/// host, or somebody else can have written the file.
fn demand_trust(found: &Found, bundle: &Bundle, trust: Option<&Trust>) -> Result<(), Failure> {
    let digest = format!("sha256:{}", bundle.digest);
    match trust {
        Some(Trust::Digest(named)) if named.to_string() == digest => return Ok(()),
        Some(Trust::Digest(_)) => {
            let shown = sanitize_name(&found.path().display().to_string());
            return Err(Failure::new(format!("the digest of `{shown}` is {digest}, not the one in --trust")));
        }
        Some(Trust::Now | Trust::Recorded) | None => {}
    }
    let problem = if found.is_untrusted() {
        "is in a folder that tasks can write to".to_owned()
    } else if is_written_by_others(found)? {
        "may have been written by another user".to_owned()
    } else {
        match taken(&bundle.manifest.settings) {
            None => return Ok(()),
            Some(names) => format!("takes variables of this host: {names}"),
        }
    };
    Err(unnamed(found, bundle, &problem))
}

/// The error of a bundle that must be named by its digest.
fn unnamed(found: &Found, bundle: &Bundle, problem: &str) -> Failure {
    let (shown, digest) = (sanitize_name(&found.path().display().to_string()), bundle.digest);
    Failure::new(format!("`{shown}` {problem}")).with_hint(format!(
        "look at it with `sandbox bundle show`, which names its hosts; then pass --trust=sha256:{digest}"
    ))
}

/// The variables of this host that a task gets, in clear or with a surrogate.
fn taken(settings: &Settings) -> Option<String> {
    let (required, optional) = bundle::given(settings);
    let names: Vec<_> = required.union(&optional).map(|name| plain_or_quoted(name)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn unused_name() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// The folder in `trees` with the tree of `bundle`.
fn tree_of(bundle: &Bundle, trees: &Path) -> PathBuf {
    trees.join(bundle.manifest.tree.to_string())
}

/// Unpacks the tree of `bundle` unless it is in `trees`; it stays there while the lock is held.
async fn unpacked(found: &Found, bundle: &Bundle, trees: &Path) -> Result<FileLock, Failure> {
    let failed = || Failure::doing(format!("unpack the bundle in `{}`", trees.display()));
    let _lock = FileLock::exclusive(&trees.join(LOCK)).await.map_err(failed())?;
    let tree = tree_of(bundle, trees);
    let path = lock_of(&tree);
    // Nobody holds it alone without the other one.
    let lock = FileLock::shared(&path).await.map_err(failed())?;
    let used = fs::File::options().write(true).open(&path);
    used.and_then(|file| file.set_modified(SystemTime::now())).map_err(failed())?;
    prune(trees).map_err(failed())?;
    if tree.is_dir() {
        return Ok(lock);
    }
    let new = trees.join(format!("{NEW}{}", unused_name()));
    let unpacked = Bundle::unpack(BufReader::new(found.file()?), &new);
    let is_same = unpacked.map(|other| other == *bundle);
    if !matches!(is_same, Ok(true)) {
        // The first failure is the one to report.
        let _ = remove_folder(&new);
        is_same.map_err(Failure::doing(format!("unpack the bundle in `{}`", trees.display())))?;
        return Err(Failure::new("the bundle changed meanwhile"));
    }
    // With its name, all of its files must be on the disk.
    let folder = fs::File::open(&new).map_err(failed())?;
    syncfs(&folder).map_err(io::Error::from).map_err(failed())?;
    fs::rename(&new, &tree).map_err(failed())?;
    Ok(lock)
}

/// The lock of a tree, whose time is that of its last use.
fn lock_of(tree: &Path) -> PathBuf {
    tree.with_added_extension(LOCK)
}

/// Removes trees that no run has used for a while, and those that a killed process left.
fn prune(trees: &Path) -> io::Result<()> {
    for entry in fs::read_dir(trees)? {
        let path = entry?.path();
        let Ok(facts) = fs::symlink_metadata(&path) else { continue };
        if !facts.is_dir() {
            continue;
        }
        let lock = lock_of(&path);
        let is_new = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(NEW.as_bytes()));
        let is_old = || {
            let used = fs::metadata(&lock).and_then(|facts| facts.modified());
            used.is_ok_and(|used| used.elapsed().is_ok_and(|age| age > KEPT))
        };
        if is_new || is_old() && FileLock::try_exclusive(&lock)?.is_some() {
            // A process that is killed must not leave a part of it under its name.
            let removed = trees.join(format!("{NEW}{}", unused_name()));
            fs::rename(&path, &removed)?;
            remove_folder(&removed)?;
            or_absent(fs::remove_file(&lock))?;
        }
    }
    Ok(())
}

/// The folder of the copy of one run, which nobody else uses.
#[derive(Debug)]
struct CopyFolder {
    path: PathBuf,
    lock: FileLock,
    /// Those of runs that had been killed when this one began.
    dead: Vec<PathBuf>,
}

impl CopyFolder {
    /// Creates the folder `path` in `all`.
    async fn create(all: &Path, path: PathBuf) -> Result<Self, Failure> {
        let failed = || Failure::doing(format!("create a folder in `{}`", all.display()));
        // While it is held, no folder of an active run is without its own.
        let _lock = FileLock::exclusive(&all.join(LOCK)).await.map_err(failed())?;
        let mut dead = Vec::new();
        for entry in fs::read_dir(all).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            // One that was left to the user has no lock.
            let lock = fs::File::open(path.join(LOCK)).and_then(FileLock::try_exclusive_on);
            if lock.is_ok_and(|lock| lock.is_some()) {
                dead.push(path);
            }
        }
        create_folder(&path, 0o700).map_err(failed())?;
        let lock = FileLock::exclusive(&path.join(LOCK)).await.map_err(failed())?;
        Ok(Self { path, lock, dead })
    }

    /// The copy in the folder `path`.
    fn layer(path: &Path) -> PathBuf {
        path.join("copy")
    }

    /// Removes those of killed runs, whose containers were removed since.
    fn remove_dead(&self, printer: Printer) {
        self.dead.iter().for_each(|path| removed(path, printer));
    }

    /// Removes it, unless the container that writes to it may be running: the next run does that.
    fn remove(self, printer: Printer) {
        let copy = WorkspaceCopy::open(Self::layer(&self.path));
        if !copy.is_ok_and(|copy| copy.is_some_and(|copy| copy.was_interrupted())) {
            removed(&self.path, printer);
        }
    }

    /// Leaves it to the user; returns its path.
    fn keep(self) -> Result<PathBuf, Failure> {
        let Self { path, lock, .. } = self;
        fs::remove_file(path.join(LOCK)).map_err(Failure::doing("keep the copy"))?;
        drop(lock);
        Ok(path)
    }
}

fn removed(path: &Path, printer: Printer) {
    if let Err(error) = or_absent(remove_folder(path)) {
        printer.warning(format_args!("failed to remove `{}`: {error}", path.display()));
    }
}

#[cfg(test)]
mod tests;
