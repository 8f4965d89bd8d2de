//! `bundle …`: a command or an agent, with its settings and its work tree, in one file to read and to
//! send.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use allowlist::HostPattern;
use rustix::fs::{Mode, OFlags, openat};
use sandbox::Agent;
use sandbox::host_path::Found;
use sandbox_bundle::{
    AgentTask, Bundle, Digest, Entry, Limits, Listing, SessionToken, Settings, Snapshot, Task, Variable,
};
use sandbox_files::tree::Tree;
use sandbox_files::{Replacement, create_folder};

use super::agent;
use crate::args::{BundleCommand, Output, PackArgs, ShowBundleArgs};
use crate::config::{Environment, Places};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, plain_or_quoted, sanitize_name};
use crate::settings::{Needs, TrustedProject};
use crate::table::aligned;
use crate::trust::{size, time};

/// The permissions of a bundle, which has files of the user's.
const MODE: u32 = 0o600;
/// Bytes of the record of a bundle, which has two paths.
const LONGEST_RECORD: u64 = 1 << 16;

/// Runs the subcommand; `trusted` is called only if it acts.
pub(crate) fn bundle(
    command: &BundleCommand,
    trusted: impl FnOnce(Needs<'_>) -> Result<TrustedProject, Failure>,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    match command {
        BundleCommand::Create(args) => {
            let task = Task::Command(args.command.clone());
            pack(&args.pack, task, &trusted(needs(&args.pack))?, environment, printer)
        }
        BundleCommand::Agent(args) => {
            let project = trusted(needs(&args.pack))?;
            let agent = agent::agent_of(args.agent_task.agent.as_deref(), &project)?;
            // Where the bundle runs, --agent-bin may name the program: the image must not depend on the
            // one of this host.
            let project = project.for_agent(&agent, true, &args.pack.image, environment);
            let project = project.map_err(|failure| failure.with_hint(name_a_key(&agent)))?;
            let task = Task::Agent(agent::packed(&args.agent_task, agent)?);
            pack(&args.pack, task, &project, environment, printer)
        }
        BundleCommand::List => list(&trusted(Needs { image: None, allowlist: None })?, environment, printer),
        BundleCommand::Show(args) => show(args, &Places::find(environment)?, printer),
    }
}

/// How a bundle gets the variable of a key.
fn name_a_key(agent: &Agent) -> String {
    let masked = agent.credentials().map(|(name, preset)| format!("{name}: {{preset: {preset}}}"));
    format!(
        "write `masked_secrets: {{{}}}` into .sandbox/sandbox.yaml; the value is given where the bundle runs",
        masked.take(1).collect::<String>()
    )
}

fn needs(args: &PackArgs) -> Needs<'_> {
    Needs { image: Some(&args.image), allowlist: args.policy.allowlist.as_deref() }
}

fn pack(
    args: &PackArgs,
    task: Task,
    project: &TrustedProject,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let shown = sanitize_name(&args.output_file.display().to_string());
    let (folder, name) = target(&args.output_file, project)?;
    let settings = project.bundled(args, task, environment, printer)?;
    if let Task::Agent(AgentTask { agent, .. }) = &settings.task
        && given(&settings) == (BTreeSet::new(), BTreeSet::new())
        && agent.credentials().next().is_some()
    {
        printer.warning("the agent gets no key, because the bundle takes no variable");
        printer.hint(format_args!("set the key's variable here, or {}", name_a_key(agent)));
    }
    let tree = Tree::open(&project.root).map_err(Failure::doing("open the project's folder"))?;
    let snapshot = Snapshot::read(&tree, project.bundled_paths(&tree, environment)?)?;
    project.refuse_secrets(&settings, snapshot.listing(), environment)?;
    if snapshot.listing().sizes().next().is_none() {
        printer.warning("no file is packed: the project is empty, or git ignores all of it");
    }
    // The folder that was found can be flushed only if it is opened for reading.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = folder.path().join(name);
    let folder =
        openat(&folder, ".", flags, Mode::empty()).map_err(Failure::doing(format!("open `{shown}`")))?;
    let mut digest = None;
    let fill = |file: &mut File| {
        digest = Some(snapshot.write(&mut BufWriter::new(file), &settings).map_err(io::Error::other)?);
        Ok(())
    };
    let written = Replacement::shared(MODE).durable().fill_in(folder, name, fill);
    written.map_err(Failure::doing(format!("write `{shown}`")))?;
    if let Some(digest) = digest {
        let root = project.root.clone();
        RecordedBundle { file: path, root }.write(&digest, &project.places)?;
        printer.line(digest);
    }
    printer.message(format_args!("{shown}: {}", amount(snapshot.listing())));
    Ok(ExitStatus::Success)
}

/// The folder and name of the file that is written. In the project, the next bundle would contain it.
fn target<'a>(file: &'a Path, project: &TrustedProject) -> Result<(Found, &'a str), Failure> {
    let shown = || sanitize_name(&file.display().to_string());
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Failure::usage(format!("`{}` is not the name of a file", shown())))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = project.resolver.find(folder.unwrap_or(Path::new(".")))?;
    if !folder.is_folder() {
        return Err(Failure::new(format!("`{}` is not in a folder", shown())));
    }
    if project.resolver.find(&project.root)?.contains(&folder)? {
        return Err(Failure::usage(format!("`{}` is in the project, whose files are packed", shown()))
            .with_hint("name a file outside of it, such as ../NAME"));
    }
    // Root could replace `/dev/null`.
    if folder.child(OsStr::new(name)).is_ok_and(|present| !present.is_file()) {
        return Err(Failure::usage(format!("`{}` is a link, a folder or a device", shown())));
    }
    Ok((folder, name))
}

fn list(
    project: &TrustedProject,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let tree = Tree::open(&project.root).map_err(Failure::doing("open the project's folder"))?;
    let snapshot = Snapshot::read(&tree, project.bundled_paths(&tree, environment)?)?;
    if names(snapshot.listing()).all(|name| printer.line(name)) {
        printer.message(amount(snapshot.listing()));
    }
    Ok(ExitStatus::Success)
}

fn show(args: &ShowBundleArgs, places: &Places, printer: Printer) -> Result<ExitStatus, Failure> {
    let bundle = read(&places.resolver(Path::new("."))?.find(&args.file)?)?;
    match args.output {
        Output::Json => drop(printer.line(ascii(&serde_json::to_string(&bundle)?))),
        Output::Text => {
            let _ = aligned(&described(&bundle)).iter().all(|line| printer.line(line));
        }
    }
    Ok(ExitStatus::Success)
}

pub(super) fn read(found: &Found) -> Result<Bundle, Failure> {
    let shown = sanitize_name(&found.path().display().to_string());
    Bundle::read(BufReader::new(found.file()?)).map_err(Failure::doing(format!("read `{shown}` as a bundle")))
}

/// Where a bundle was written on this host, and the project that it is of.
#[derive(Debug)]
pub(super) struct RecordedBundle {
    pub(super) file: PathBuf,
    pub(super) root: PathBuf,
}

impl RecordedBundle {
    fn write(&self, digest: &Digest, places: &Places) -> Result<(), Failure> {
        let folder = places.bundles();
        let failed = || Failure::doing(format!("write to `{}`", folder.display()));
        create_folder(&folder, 0o700).map_err(failed())?;
        // No path has a zero byte.
        let text = [self.file.as_os_str().as_bytes(), self.root.as_os_str().as_bytes()].join(&0);
        Replacement::private().write(&folder.join(digest.to_string()), &text).map_err(failed())
    }
}

/// Where the bundle with this digest was written on this host.
pub(super) fn recorded(places: &Places, digest: &Digest) -> Result<Option<RecordedBundle>, Failure> {
    let file = places.bundles().join(digest.to_string());
    let found = places.resolver_without_tree()?.read(&file, LONGEST_RECORD)?;
    let text = found.map(|(_, text)| text);
    let at = text.as_ref().and_then(|text| text.iter().position(|byte| *byte == 0));
    Ok(text.zip(at).map(|(text, at)| {
        let path = |bytes: Option<&[u8]>| PathBuf::from(OsStr::from_bytes(bytes.unwrap_or_default()));
        RecordedBundle { file: path(text.get(..at)), root: path(text.get(at + 1..)) }
    }))
}

/// The same JSON without characters that a terminal or an editor hides, reorders or obeys.
pub(super) fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            ' '..='~' => text.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text
}

/// The number and size of files.
fn amount(tree: &Listing) -> String {
    format!("{}, {} bytes", counted(tree.sizes().count(), "file"), tree.sizes().sum::<u64>())
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The paths of the entries, those of folders with `/` at the end.
fn names(tree: &Listing) -> impl Iterator<Item = String> {
    tree.entries().map(|(path, entry)| {
        let end = if *entry == Entry::Folder { "/" } else { "" };
        sanitize_name(&path.as_path().display().to_string()) + end
    })
}

/// The names of the variables that must, or may, be set on the host that runs the bundle.
pub(super) fn given(settings: &Settings) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut required, mut optional): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
    for (name, variable) in &settings.variables {
        match variable {
            Variable::Value(_) => false,
            Variable::Required(name) => required.insert(name.as_str()),
            Variable::IfSet(_) => optional.insert(name.as_str()),
            Variable::Masked(_) => required.insert(name.as_str()),
        };
    }
    for key in settings.signing.values() {
        required.extend([key.access_key_id.as_str(), key.secret_access_key.as_str()]);
        match &key.session_token {
            SessionToken::None => false,
            SessionToken::Required(name) => required.insert(name.as_str()),
            SessionToken::IfSet(name) => optional.insert(name.as_str()),
        };
    }
    (required, optional)
}

/// The lines about a bundle. Everything in it is another party's.
fn described(Bundle { digest, manifest, tree }: &Bundle) -> Vec<Vec<String>> {
    let settings = &manifest.settings;
    let Settings { task, working_dir, image, variables, signing, limits, policy } = settings;
    let (required, optional) = given(settings);
    let hosts: BTreeSet<&str> = policy.rules().iter().map(|rule| rule.host().as_str()).collect();
    let values = variables.iter().filter_map(|(name, variable)| {
        let (sign, value) = match variable {
            Variable::Value(value) => ("=", value),
            Variable::IfSet(Some(value)) => ("?=", value),
            Variable::IfSet(None) | Variable::Required(_) | Variable::Masked(_) => return None,
        };
        Some(format!("{}{sign}{}", plain_or_quoted(name.as_str()), plain_or_quoted(value)))
    });
    let masked = variables.iter().filter_map(|(name, variable)| match variable {
        Variable::Masked(injection) => Some((name, &injection.scopes)),
        Variable::Value(_) | Variable::Required(_) | Variable::IfSet(_) => None,
    });
    let signing = signing.values().map(|key| (&key.access_key_id, &key.scopes));
    let secrets = masked.chain(signing).map(|(name, scopes)| {
        format!("{} for {}", plain_or_quoted(name.as_str()), listed(scopes.iter().map(HostPattern::as_str)))
    });
    let rules = counted(policy.rules().len(), "rule");
    let lines = [
        ("directory", plain_or_quoted(working_dir)),
        ("image", plain_or_quoted(image)),
        ("policy", format!("{rules}, {} denied", policy.denied().len())),
        ("within", listed(policy.outer().iter().map(|outer| outer.document.as_str()))),
        ("hosts", listed(hosts)),
        ("secrets", joined(secrets)),
        ("variables", joined(values)),
        ("must be set", listed(required)),
        ("may be set", listed(optional)),
        ("limits", joined(of_limits(limits))),
        ("files", amount(tree)),
    ];
    let digest = [("digest", digest.to_string())];
    let shown = digest.into_iter().chain(of_task(task)).chain(lines).filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| vec![name.to_owned(), value]).collect()
}

fn of_task(task: &Task) -> Vec<(&'static str, String)> {
    let words =
        |words: &[String]| words.iter().map(|word| plain_or_quoted(word)).collect::<Vec<_>>().join(" ");
    let agent = match task {
        Task::Command(command) => return vec![("command", words(command))],
        Task::Agent(agent) => agent,
    };
    let AgentTask { agent, prompt, model, max_turns, max_budget_microdollars, stall, briefing, arguments } =
        agent;
    let most = [
        max_turns.map(|turns| format!("{turns} turns")),
        max_budget_microdollars.map(|budget| dollars(budget.get())),
    ];
    let stall = stall.map(|stall| {
        let then = if stall.stop { "it is stopped" } else { "a warning" };
        format!("{then} after {} without a report", time(stall.after.get()))
    });
    vec![
        ("agent", agent.name().to_owned()),
        ("prompt", plain_or_quoted(prompt)),
        ("model", model.as_deref().map(plain_or_quoted).unwrap_or_default()),
        ("arguments", words(arguments)),
        ("at most", joined(most.into_iter().flatten())),
        ("stall", stall.unwrap_or_default()),
        ("briefing", if *briefing { String::new() } else { "none".to_owned() }),
    ]
}

/// An amount with cents, or as many digits as it has.
pub(super) fn dollars(microdollars: u64) -> String {
    let text = format!("${}.{:06}", microdollars / 1_000_000, microdollars % 1_000_000);
    let digits = text.trim_end_matches('0').len().max(text.len() - 4);
    text.get(..digits).unwrap_or(&text).to_owned()
}

fn of_limits(limits: &Limits) -> impl Iterator<Item = String> {
    let Limits { timeout, memory, nano_cpus, pids, disk } = limits;
    let cpus = nano_cpus.map(|nano| {
        let text = format!("{}.{:09}", nano / 1_000_000_000, nano % 1_000_000_000);
        format!("{} processors", text.trim_end_matches('0').trim_end_matches('.'))
    });
    let limits = [
        timeout.map(time),
        memory.map(|bytes| format!("{} of memory", size(bytes))),
        cpus,
        pids.map(|pids| format!("{pids} processes")),
        disk.map(|bytes| format!("{} of disk", size(bytes))),
    ];
    limits.into_iter().flatten()
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    joined(names.into_iter().map(plain_or_quoted))
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(super) mod tests;
