//! `job`, which Slurm runs on a node: one bundle of a submission, with podman's storage and service for
//! this job only.

use std::fs;
use std::io::{self, Seek as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use sandbox::host_path::remember;
use sandbox::image::ImageRequest;
use sandbox::{ImageSource, Sandbox, SandboxConfig};
use sandbox_bundle::{Bundle, Digest, Limits};
use tokio::fs::File;

use super::bundle;
use super::run_bundle::{OfCaller, run_bundle};
use crate::args::{GlobalArgs, JobArgs};
use crate::config::{Environment, Places};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Interrupts};
use crate::printer::Printer;
use crate::slurm::{
    Images, JobFolder, Node, Slurm, Submission, SubmittedTask, Taken, await_secrets, forget_secrets,
    pass_secrets,
};
use crate::trust::{Trust, size};

/// Runs the bundle with the number of this element of the array, unless it has a result.
pub(crate) async fn job(
    args: &JobArgs,
    global: GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let node = Node::open(&args.local)?;
    if args.secrets {
        return pass_secrets(&node, environment).map(|()| ExitStatus::Success);
    }
    let ended = run(args, &node, global, &node.environment(environment), printer).await;
    forget_secrets(&node, environment);
    ended
}

async fn run(
    args: &JobArgs,
    node: &Node,
    global: GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let places = Places::find(environment)?;
    let (folder, submission) = Submission::open(&args.submission.folder, &places.resolver_without_tree()?)?;
    // What tasks could write on the submitting host counts here, too.
    for path in &submission.writable {
        remember(&places.state, path).map_err(Failure::doing("write to the state folder"))?;
    }
    let resolver = places.resolver_without_tree()?;
    let (number, task) = element(&submission, environment)?;
    let result = folder.path().join(number.to_string());
    if result.exists() {
        printer.message(format_args!("{number} has a result already"));
        return Ok(ExitStatus::Success);
    }
    if folder.path().join(Submission::CANCELLED).join(number.to_string()).exists() {
        printer.warning(format_args!("{number} was cancelled"));
        return Ok(ExitStatus::Negative);
    }
    let bundle = bundle::read(&resolver.find(&task.bundle)?)?;
    if bundle.digest != task.digest {
        return Err(Failure::new(format!("`{}` changed after it was submitted", task.name())));
    }
    demand_room(&bundle.manifest.settings.limits, environment)?;
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let secrets = tokio::select! {
        secrets = secrets_of(task, node, environment, printer) => secrets?,
        interrupt = interrupts.next() => return Ok(ExitStatus::Interrupted(interrupt)),
    };
    if secrets.is_none() && !task.takes.is_empty() {
        printer.warning("no secrets came in time: run `sandbox collect --secrets-stdin`, which tries again");
        return Ok(ExitStatus::TryLater);
    }
    let images = match prepare(node, &submission, &bundle, environment, &mut interrupts).await? {
        Ok(images) => images,
        Err(interrupt) => return Ok(ExitStatus::Interrupted(interrupt)),
    };
    let own = tokio::select! {
        own = JobFolder::create(node, &images, environment, printer) => own?,
        interrupt = interrupts.next() => return Ok(ExitStatus::Interrupted(interrupt)),
    };
    let attempt = folder.path().join(Submission::ATTEMPTS);
    let attempt = attempt.join(format!("{number}-{:016x}", rand::random::<u64>()));
    let mut values = secrets.as_ref().map(|(values, _lock)| values.as_slice());
    let values = values.as_mut().map(|values| values as &mut (dyn io::Read + Send));
    let caller = OfCaller { secrets: values, interrupts: Some(interrupts), ..OfCaller::default() };
    let ended = run_in(&own, global, task, caller, &attempt, environment, printer).await;
    // It gets its name before the folders of the job go, which takes a while.
    let is_final = ended.as_ref().is_ok_and(|status| *status != ExitStatus::TryLater) && attempt.exists();
    let is_stored = if is_final { place(&attempt, &result) } else { Ok(true) };
    own.remove(printer);
    if !is_stored? {
        printer.warning("another attempt stored a result meanwhile, so this one is dropped");
    }
    ended
}

/// Gives a whole result its final name; returns false if there is another one, which stays.
pub(super) fn place(attempt: &Path, result: &Path) -> Result<bool, Failure> {
    let failed = || Failure::doing(format!("name the result `{}`", result.display()));
    match fs::rename(attempt, result) {
        Ok(()) => Ok(true),
        // The kernel replaces only an empty folder.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) =>
        {
            fs::remove_dir_all(attempt).map_err(failed())?;
            Ok(false)
        }
        // `sandbox collect` named it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && result.exists() => Ok(true),
        Err(error) => Err(failed()(error)),
    }
}

async fn run_in(
    own: &JobFolder,
    mut global: GlobalArgs,
    task: &SubmittedTask,
    caller: OfCaller<'_>,
    attempt: &Path,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if task.is_trusted {
        let digest = format!("sha256:{}", task.digest).parse().map_err(Failure::new)?;
        global.trust = Some(Trust::Digest(digest));
    }
    let service = own.serve()?;
    global.engine = Some(service.address.clone());
    let ran = run_bundle(&task.bundle, attempt, caller, &global, environment, printer).await;
    drop(service);
    ran
}

/// The number of this element, and its bundle.
fn element<'a>(
    submission: &'a Submission,
    environment: &Environment,
) -> Result<(u32, &'a SubmittedTask), Failure> {
    let number = environment.text("SLURM_ARRAY_TASK_ID").and_then(|text| text.parse().ok());
    let found = submission.numbered().find(|(own, _)| Some(*own) == number);
    found.ok_or_else(|| {
        Failure::usage("SLURM_ARRAY_TASK_ID is not the number of a bundle")
            .with_hint("Slurm runs this command; use `sandbox submit`")
    })
}

/// A job that is smaller than its task would be killed without a result.
fn demand_room(limits: &Limits, environment: &Environment) -> Result<(), Failure> {
    let of_job = |name: &str| environment.text(name).and_then(|text| text.parse::<u64>().ok());
    let memory = of_job("SLURM_MEM_PER_NODE").filter(|mib| *mib > 0).map(|mib| mib << 20);
    if let (Some(needed), Some(has)) = (limits.memory, memory)
        && needed > has
    {
        let problem = format!("its task may use {} of memory, and the job has {}", size(needed), size(has));
        return Err(Failure::new(problem).with_hint("submit the bundle with a larger `-- --mem=SIZE`"));
    }
    let cpus = of_job("SLURM_CPUS_PER_TASK");
    if let (Some(needed), Some(has)) = (limits.nano_cpus.map(|nano| nano.div_ceil(1_000_000_000)), cpus)
        && needed > has
    {
        let problem = format!("its task may use {needed} processors, and the job has {has}");
        return Err(Failure::new(problem).with_hint("submit it with a larger `-- --cpus-per-task=N`"));
    }
    Ok(())
}

async fn secrets_of(
    task: &SubmittedTask,
    node: &Node,
    environment: &Environment,
    printer: Printer,
) -> Result<Option<Taken>, Failure> {
    if task.takes.is_empty() {
        return Ok(None);
    }
    await_secrets(node, &Slurm::new(environment), environment, printer).await
}

/// The node's storage with the images of `bundle`, which are loaded and built unless it has them.
async fn prepare(
    node: &Node,
    submission: &Submission,
    bundle: &Bundle,
    environment: &Environment,
    interrupts: &mut Interrupts,
) -> Result<Result<Images, Interrupt>, Failure> {
    let image = &bundle.manifest.settings.image;
    // Two archives may have different images of one name.
    let key = format!("{image}\n{}\n{}", submission.image_digest, program_version()?);
    let images = node.images(&key);
    let _lock = tokio::select! {
        lock = node.images_lock() => lock?,
        interrupt = interrupts.next() => return Ok(Err(interrupt)),
    };
    if images.are_ready() {
        return Ok(Ok(images));
    }
    let podman = images.podman(environment);
    let service = podman.serve()?;
    let places = Places::find(environment)?;
    let mut config = SandboxConfig::new(service.address.clone(), &places.state);
    config.proxy_dir = environment.path("SANDBOX_PROXY_DIR");
    let filled = async {
        let sandbox = Sandbox::start(config).await?;
        let loaded = tokio::select! {
            loaded = load(&sandbox, image, submission, &places) => loaded.map(Ok),
            interrupt = interrupts.next() => Ok(Err(interrupt)),
        };
        sandbox.shutdown().await?;
        loaded
    };
    let filled = filled.await;
    drop(service);
    podman.end_namespaces()?;
    match filled? {
        Ok(()) => images.set_ready().map(|()| Ok(images)),
        Err(interrupt) => Ok(Err(interrupt)),
    }
}

async fn load(
    sandbox: &Sandbox,
    image: &str,
    submission: &Submission,
    places: &Places,
) -> Result<(), Failure> {
    let archive = places.resolver_without_tree()?.find(&submission.image_archive)?;
    let mut file = archive.file()?;
    let digest = Digest::of_all(&file).map_err(Failure::doing("read the archive of images"))?.1;
    if digest != submission.image_digest {
        return Err(Failure::new(format!("`{}` changed after it was submitted", archive.path().display())));
    }
    file.rewind().map_err(Failure::doing("read the archive of images"))?;
    sandbox.load_images(File::from_std(file)).await?;
    let source = ImageSource::existing(image);
    sandbox.ensure_image(ImageRequest::new(&source)).await?;
    Ok(())
}

/// Changes with this program, whose proxy has an image too.
fn program_version() -> Result<String, Failure> {
    let program = std::env::current_exe().map_err(Failure::doing("find this program's file"))?;
    let facts = fs::metadata(&program).map_err(Failure::doing("read this program's file"))?;
    let changed = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(format!("{} {}", facts.len(), changed.unwrap_or_default().as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_placed_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["first", "second"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("result.json"), name).unwrap();
        }
        assert!(place(&at("first"), &at("1")).unwrap());
        assert!(!place(&at("second"), &at("1")).unwrap());
        assert_eq!(fs::read_to_string(at("1/result.json")).unwrap(), "first");
        assert!(!at("second").exists());
    }

    #[test]
    fn job_smaller_than_its_task_is_refused() {
        let limits = Limits { memory: Some(2 << 30), nano_cpus: Some(1_500_000_000), ..Limits::default() };
        let job = |variables: &[(&str, &str)]| demand_room(&limits, &variables.iter().copied().collect());
        assert!(job(&[("SLURM_MEM_PER_NODE", "2048"), ("SLURM_CPUS_PER_TASK", "2")]).is_ok());
        assert!(job(&[("SLURM_MEM_PER_NODE", "0")]).is_ok(), "a cluster that does not count memory");
        assert!(job(&[("SLURM_MEM_PER_NODE", "2047")]).is_err());
        assert!(job(&[("SLURM_CPUS_PER_TASK", "1")]).is_err());
    }
}
