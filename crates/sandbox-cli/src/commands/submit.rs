//! `submit`: bundles to a cluster, as one array of jobs.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sandbox::host_path::{Found, Resolver, writable_folders};
use sandbox_bundle::{Bundle, Digest, Limits};
use sandbox_files::Replacement;

use super::bundle;
use crate::args::{GlobalArgs, SubmitArgs};
use crate::config::{Environment, Places, demand_ours};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::slurm::{Slurm, Submission, SubmittedTask};
use crate::trust::Trust;

/// The batch script. Slurm runs a copy of it.
const SCRIPT: &str = "run.sh";
/// The folder of the jobs' output, which sbatch does not create.
const LOGS: &str = "logs";
/// The time before its limit at which a job gets SIGTERM, in seconds: containers are ended, not lost.
const GRACE: u32 = 60;
/// What a job needs beside its task: MiB for the proxy and this program, and minutes to start and to end.
const EXTRA_MEMORY: u64 = 256;
const EXTRA_MINUTES: u64 = 12;
/// The minutes for which a job waits for secrets.
const WAIT_MINUTES: u64 = 10;

/// Submits the bundles, and prints the number of the array.
pub(crate) fn submit(
    args: &SubmitArgs,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let places = Places::find(environment)?;
    let resolver = places.resolver_without_tree()?;
    let archive = resolver.find(&args.image_archive)?;
    demand_ours(&archive)?;
    let digest = Digest::of_all(archive.file()?).map_err(Failure::doing("read the archive of images"))?.1;
    let writable = writable_folders(&places.state).map_err(Failure::doing("read the state folder"))?;
    let archive = archive.path().to_owned();
    let mut submission = Submission::new(archive, digest, writable, args.local.clone());
    // All bundles, or the one with this digest.
    let trusted = match &global.trust {
        Some(Trust::Digest(digest)) => Some(digest.to_string()),
        Some(Trust::Now | Trust::Recorded) | None => None,
    };
    let is_named = |bundle: &Bundle| trusted.as_deref() == Some(&format!("sha256:{}", bundle.digest));
    let mut limits = Vec::new();
    for path in &args.bundles {
        let found = resolver.find(path)?;
        demand_ours(&found)?;
        let bundle = bundle::read(&found)?;
        let is_trusted = global.trust == Some(Trust::Now)
            || is_named(&bundle)
            || bundle::recorded(&places, &bundle.digest)?.is_some();
        let task = task_of(&found, &bundle, is_trusted);
        if !task.takes.is_empty() && !is_trusted {
            let problem = format!("`{}` takes secrets, and was not written on this host", task.name());
            return Err(Failure::new(problem).with_hint(
                "look at it with `sandbox bundle show`, which names its hosts; then pass --trust=sha256:DIGEST, or --trust for all",
            ));
        }
        limits.push(bundle.manifest.settings.limits);
        submission.tasks.push(task);
    }
    let count = submission.tasks.len();
    let takes_secrets = submission.tasks.iter().any(|task| !task.takes.is_empty());
    let folder = place(&args.output_dir, &resolver)?;
    let program = std::env::current_exe().map_err(Failure::doing("find this program's file"))?;
    let script = script(&program, &args.local, &folder)?;
    let slurm = Slurm::new(environment);
    // Without it, nothing is created.
    slurm.run("sbatch", ["--version"], b"")?;
    create(&folder)?;
    write(&folder, &submission, &script)?;
    let mut options = resources(&limits, takes_secrets);
    options.extend_from_slice(&args.options);
    options.extend([
        "--parsable".to_owned(),
        format!("--array=1-{count}{}", args.jobs.map(|most| format!("%{most}")).unwrap_or_default()),
        format!("--job-name={}", submission.job_name()),
        format!("--chdir={}", folder.display()),
        format!("--output={LOGS}/%a.log"),
        "--open-mode=append".to_owned(),
        format!("--signal=B:TERM@{GRACE}"),
        "--requeue".to_owned(),
        "--export=ALL".to_owned(),
        folder.join(SCRIPT).display().to_string(),
    ]);
    let shown = sanitize_name(&folder.display().to_string());
    let name = submission.job_name();
    let array = slurm.run("sbatch", options, b"").or_else(|failure| {
        // A busy controller may accept them and answer too late.
        let accepted = slurm.jobs(&name).ok().and_then(|jobs| jobs.into_values().next());
        if let Some((array, _)) = accepted.as_ref().and_then(|job| job.element.split_once('_')) {
            printer.failure(&failure);
            printer.warning("Slurm accepted the jobs all the same");
            return Ok(array.to_owned());
        }
        let hint = format!("remove `{shown}` only if `squeue --name={name}` lists no job");
        Err(if failure.hint().is_some() { failure } else { failure.with_hint(hint) })
    })?;
    printer.line(sanitize_name(array.trim()));
    printer
        .message(format_args!("{shown}: {count} submitted; `sandbox collect {shown}` waits for the results"));
    Ok(ExitStatus::Success)
}

fn task_of(found: &Found, bundle: &Bundle, is_trusted: bool) -> SubmittedTask {
    let (needed, optional) = bundle::given(&bundle.manifest.settings);
    let takes: BTreeSet<String> = needed.union(&optional).map(|&name| name.to_owned()).collect();
    let requires = needed.into_iter().map(str::to_owned).collect();
    SubmittedTask { bundle: found.path().to_owned(), digest: bundle.digest, is_trusted, takes, requires }
}

/// The place of the new folder `path`.
fn place(path: &Path, resolver: &Resolver) -> Result<PathBuf, Failure> {
    let shown = sanitize_name(&path.display().to_string());
    let name = path.file_name().ok_or_else(|| Failure::usage(format!("`{shown}` is not a name")))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = resolver.find(parent.unwrap_or(Path::new(".")))?;
    if parent.is_untrusted() {
        return Err(Failure::new(format!("`{shown}` is in a folder that tasks can write to")));
    }
    if parent.child(name).is_ok() {
        return Err(Failure::usage(format!("`{shown}` exists already"))
            .with_hint("name a new folder with --output-dir"));
    }
    Ok(parent.path().join(name))
}

/// Creates `folder`, which must not exist.
fn create(folder: &Path) -> Result<(), Failure> {
    let folders = [LOGS, Submission::ATTEMPTS, Submission::CANCELLED].map(|name| folder.join(name));
    for path in [folder].into_iter().chain(folders.iter().map(PathBuf::as_path)) {
        let created = DirBuilder::new().mode(0o700).create(path);
        created
            .map_err(Failure::doing(format!("create `{}`", sanitize_name(&path.display().to_string()))))?;
    }
    Ok(())
}

fn write(folder: &Path, submission: &Submission, script: &str) -> Result<(), Failure> {
    let record = serde_json::to_vec_pretty(submission)?;
    for (name, text) in [(Submission::RECORD, &record[..]), (SCRIPT, script.as_bytes())] {
        let path = folder.join(name);
        let written = Replacement::private().durable().write(&path, text);
        written.map_err(Failure::doing(format!("write `{}`", path.display())))?;
    }
    Ok(())
}

/// A script that becomes this program: signals to the script reach it.
fn script(program: &Path, local: &Path, folder: &Path) -> Result<String, Failure> {
    let quoted = |path: &Path| match path.to_str().filter(|_| path.is_absolute()) {
        Some(text) => Ok(format!("'{}'", text.replace('\'', r"'\''"))),
        None => Err(Failure::usage(format!("`{}` is not an absolute path of UTF-8", path.display()))),
    };
    Ok(format!(
        "#!/bin/sh\nexec {} job --local {} -- {}\n",
        quoted(program)?,
        quoted(local)?,
        quoted(folder)?
    ))
}

/// The options for the largest task.
fn resources(limits: &[Limits], takes_secrets: bool) -> Vec<String> {
    let most = |of: fn(&Limits) -> Option<u64>| limits.iter().filter_map(of).max();
    let cpus = most(|limits| limits.nano_cpus).map(|nano| nano.div_ceil(1_000_000_000));
    let memory = most(|limits| limits.memory).map(|bytes| bytes.div_ceil(1 << 20) + EXTRA_MEMORY);
    // A task without a limit has that of its partition.
    let is_limited = limits.iter().all(|limits| limits.timeout.is_some());
    let minutes = most(|limits| limits.timeout).filter(|_| is_limited);
    let extra = EXTRA_MINUTES + if takes_secrets { WAIT_MINUTES } else { 0 };
    let minutes = minutes.map(|seconds| seconds.div_ceil(60) + extra);
    let options = [
        cpus.map(|cpus| format!("--cpus-per-task={cpus}")),
        memory.map(|memory| format!("--mem={memory}M")),
        minutes.map(|minutes| format!("--time={minutes}")),
    ];
    options.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_those_of_the_largest_task() {
        let of = |timeout, memory, nano_cpus| Limits { timeout, memory, nano_cpus, ..Limits::default() };
        let limits = [of(Some(61), Some(1 << 30), None), of(Some(10), None, Some(1_500_000_000))];
        assert_eq!(resources(&limits, false), ["--cpus-per-task=2", "--mem=1280M", "--time=14"]);
        assert_eq!(resources(&limits, true)[2], "--time=24");
        assert_eq!(resources(&[of(Some(60), None, None), Limits::default()], false), [""; 0]);
    }

    #[test]
    fn folder_that_exists_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| place(&top.path().join(name), &Resolver::new([""; 0]));
        assert!(at("new").is_ok(), "the control");
        std::fs::create_dir(top.path().join("old")).unwrap();
        assert!(at("old").unwrap_err().to_string().contains("exists already"));
    }

    #[test]
    fn script_quotes_paths_for_the_shell() {
        let [program, local, folder] = ["/bin/it's", "/$HOME", "/a b"].map(Path::new);
        let expected = "#!/bin/sh\nexec '/bin/it'\\''s' job --local '/$HOME' -- '/a b'\n";
        assert_eq!(script(program, local, folder).unwrap(), expected);
        assert!(script(program, Path::new("local"), folder).is_err());
    }
}
