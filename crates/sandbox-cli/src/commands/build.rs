//! `build`: builds the project's image unless it exists.

use std::time::Duration;

use sandbox::image::ImageRequest;
use sandbox::{Sandbox, SandboxConfig};

use crate::args::BuildArgs;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::printer::Printer;
use crate::run_folder::RunFolder;
use crate::settings::TrustedProject;

/// Builds the image if it is missing or too old, or with `force`; prints its tag.
pub(crate) async fn build(
    args: &BuildArgs,
    force: bool,
    project: &TrustedProject,
    mut config: SandboxConfig,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let source = project.image(&args.image)?;
    let age = if force { Some(Duration::ZERO) } else { args.image.max_image_age };
    config.max_image_age = age.unwrap_or(config.max_image_age);
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let sandbox = Sandbox::start(config).await?;
    let run = RunFolder::create(&project.logs(), sandbox.instance_id())?;
    let mut is_built = false;
    let built = {
        let building =
            sandbox.ensure_image(ImageRequest::new(&source).network_log_dir(run.path()).on_line(|line| {
                if !is_built {
                    printer.message("Building sandbox image...");
                }
                is_built = true;
                printer.progress(line);
            }));
        tokio::select! {
            built = building => Ok(built),
            interrupt = interrupts.next() => Err(interrupt),
        }
    };
    run.close();
    // This also ends an interrupted build, by removing the containers of its steps.
    sandbox.shutdown().await?;
    let tag = match built {
        Ok(tag) => tag.map_err(Failure::doing("build the sandbox image"))?,
        Err(interrupt) => return Ok(ExitStatus::Interrupted(interrupt)),
    };
    printer.message(if is_built {
        "Sandbox image built successfully!"
    } else {
        "Sandbox image already exists"
    });
    if !is_built {
        printer.hint("use --force to rebuild it");
    }
    printer.line(tag);
    Ok(ExitStatus::Success)
}
