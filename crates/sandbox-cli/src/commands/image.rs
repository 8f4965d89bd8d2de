//! `image …`: builds, lists and moves images.

use std::ffi::OsStr;
use std::path::Path;
use std::time::SystemTime;

use sandbox::host_path::Resolver;
use sandbox::image::{ImageRequest, ImageSummary, ImageTags};
use sandbox::{ImageSource, Sandbox, SandboxConfig};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

use crate::args::{ImageCommand, Output};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::printer::Printer;
use crate::run_folder::RunFolder;
use crate::settings::TrustedProject;
use crate::table::aligned;
use crate::trace::LOG_MODE;

/// The name of the archive that `image save` writes.
const ARCHIVE: &str = "images.tar";

/// Runs the subcommand; `config` is called only if an engine is needed. `trusted`: `--trust` was
/// given, for an archive.
pub(crate) async fn image(
    command: ImageCommand,
    project: &TrustedProject,
    config: impl Fn() -> Result<SandboxConfig, Failure>,
    trusted: bool,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if let ImageCommand::Hash(args) = &command {
        // Without an engine if possible, because the tag is a key for caches.
        let source = project.image(&args.image)?;
        let tags = ImageTags::of_build(&project.prefix(), &source);
        if let Some(tags) = tags {
            return Ok(print_tags(&tags, args.output, printer));
        }
    }
    let config = config()?;
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let sandbox = Sandbox::start(with_age(config, &command)).await?;
    let run = RunFolder::create(&project.logs(), sandbox.instance_id())?;
    let done = tokio::select! {
        done = with_engine(command, project, &sandbox, run.path(), trusted, printer) => done,
        interrupt = interrupts.next() => Ok(ExitStatus::Interrupted(interrupt)),
    };
    run.close();
    // This also ends an interrupted build, by removing the containers of its steps.
    sandbox.shutdown().await?;
    done
}

async fn with_engine(
    command: ImageCommand,
    project: &TrustedProject,
    sandbox: &Sandbox,
    run: &Path,
    trusted: bool,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    match command {
        ImageCommand::Build(args) => {
            let source = project.image(&args.image)?;
            let tag = sandbox
                .ensure_image(
                    ImageRequest::new(&source).network_log_dir(run).on_line(|line| printer.progress(line)),
                )
                .await?;
            printer.line(tag);
        }
        ImageCommand::Hash(args) => {
            let tags = sandbox.image_tags(&project.image(&args.image)?).await?;
            return Ok(print_tags(&tags, args.output, printer));
        }
        ImageCommand::List(args) => print_images(&sandbox.list_images().await?, args.output, printer),
        ImageCommand::Save(args) => {
            save(sandbox, &project.image(&args.image)?, run, &args.dir, &project.resolver, printer).await?;
        }
        ImageCommand::Load(args) => {
            let found = project.resolver.find(&args.dir.join(ARCHIVE))?;
            if found.is_untrusted() && !trusted {
                let problem = format!(
                    "`{}` is in a folder that tasks can write to, and loading it can replace any image of the engine",
                    found.path().display()
                );
                return Err(Failure::new(problem)
                    .with_hint("pass --trust if you know its origin, or keep archives outside of projects"));
            }
            for tag in sandbox.load_images(File::from_std(found.file()?)).await? {
                printer.line(tag);
            }
        }
        ImageCommand::Prune(args) => {
            for image in sandbox.prune_images(args.max_image_age).await? {
                printer.line(format_args!("removed {}", image.tag.unwrap_or(image.id)));
            }
        }
    }
    Ok(ExitStatus::Success)
}

fn with_age(mut config: SandboxConfig, command: &ImageCommand) -> SandboxConfig {
    let age = match command {
        ImageCommand::Build(args) => args.image.max_image_age,
        ImageCommand::Save(args) => args.image.max_image_age,
        _ => None,
    };
    config.max_image_age = age.unwrap_or(config.max_image_age);
    config
}

/// Writes to a temporary file first: a file with the archive's name is complete.
async fn save(
    sandbox: &Sandbox,
    source: &ImageSource,
    run: &Path,
    dir: &Path,
    resolver: &Resolver,
    printer: Printer,
) -> Result<(), Failure> {
    sandbox
        .ensure_image(ImageRequest::new(source).network_log_dir(run).on_line(|line| printer.progress(line)))
        .await?;
    let tags = sandbox.image_tags(source).await?;
    // A bundle has the name of its image, not the tag of the layer that is added here.
    let existing = if let ImageSource::Existing(name) = source { Some(name) } else { None };
    let tags = existing.into_iter().chain(&tags.repo).chain([&tags.overlay]);
    let tags: Vec<&str> = tags.map(String::as_str).collect();
    let writing = || format!("write `{}`", dir.join(ARCHIVE).display());
    let dir = resolver.make_folder(dir)?;
    let (archive, unfinished) = (OsStr::new(ARCHIVE), OsStr::new("images.tar.unfinished"));
    // Left by a command that was killed.
    dir.remove(unfinished)?;
    let mut file = File::from_std(dir.create_new(unfinished, LOG_MODE)?);
    let saved = sandbox.save_images(&tags, &mut file).await;
    if let Err(error) = saved {
        // The first failure is the one to report.
        let _ = dir.remove(unfinished);
        return Err(error.into());
    }
    file.flush().await.map_err(Failure::doing(writing()))?;
    file.sync_all().await.map_err(Failure::doing(writing()))?;
    dir.rename(unfinished, archive)?;
    for tag in tags {
        printer.line(tag);
    }
    Ok(())
}

fn print_tags(tags: &ImageTags, output: Output, printer: Printer) -> ExitStatus {
    #[derive(Serialize)]
    struct Tags<'a> {
        version: u32,
        repo: Option<&'a str>,
        overlay: &'a str,
    }
    match output {
        Output::Json => {
            let tags = Tags { version: 1, repo: tags.repo.as_deref(), overlay: &tags.overlay };
            printer.line(serde_json::to_string(&tags).unwrap_or_default());
        }
        Output::Text => {
            if let Some(repo) = &tags.repo {
                printer.line(format_args!("repo={repo}"));
            }
            printer.line(format_args!("overlay={}", tags.overlay));
        }
    }
    ExitStatus::Success
}

/// One image of `image list --output json`.
#[derive(Debug, Serialize)]
struct ListedImage<'a> {
    tag: Option<&'a str>,
    kind: &'static str,
    id: &'a str,
    created: String,
    size: u64,
}

fn print_images(images: &[ImageSummary], output: Output, printer: Printer) {
    if output == Output::Json {
        let images: Vec<_> = images
            .iter()
            .map(|image| ListedImage {
                tag: image.tag.as_deref(),
                kind: image.kind.as_str(),
                id: &image.id,
                created: created(image.created),
                size: image.size,
            })
            .collect();
        printer.line(serde_json::json!({"version": 1, "images": images}));
        return;
    }
    let mut rows = vec![["KIND", "CREATED", "MIB", "TAG"].map(str::to_owned).to_vec()];
    rows.extend(images.iter().map(|image| {
        let tag = image.tag.clone().unwrap_or_else(|| format!("(replaced) {}", image.id));
        vec![image.kind.as_str().to_owned(), created(image.created), (image.size >> 20).to_string(), tag]
    }));
    for line in aligned(&rows) {
        if !printer.line(line) {
            return;
        }
    }
}

/// In seconds, which is precise enough for ages.
pub(super) fn created(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time).replace_nanosecond(0).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
