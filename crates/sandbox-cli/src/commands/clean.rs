//! `clean`: removing what ended runs left.

use std::path::Path;

use sandbox::{ImageSource, Sandbox, SandboxConfig};

use crate::args::CleanArgs;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::git_report::report_recovered;
use crate::printer::Printer;

/// Removes what has no owner any more and says what that was; with `all`, also what runs share, with `force`, also `image`.
pub(crate) async fn clean(
    config: SandboxConfig,
    image: Option<ImageSource>,
    args: &CleanArgs,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let sandbox = Sandbox::start(config).await?;
    let report = sandbox.sweep().await?;
    let (containers, networks) = (&report.containers, &report.networks);
    for (kind, names) in [("container", containers), ("network", networks)] {
        for name in names {
            printer.line(format_args!("removed {kind} {name}"));
        }
    }
    report_recovered(&report.git, Path::new(""), printer);
    let runs = sandbox.runs().clean().await?;
    for run in runs.iter().filter(|run| run.removed) {
        printer.line(format_args!("removed run {}", run.name));
    }
    if containers.is_empty() && networks.is_empty() && runs.is_empty() {
        printer.line("no ended run left anything");
    }
    for name in &report.failed {
        printer.warning(format_args!("`{name}` could not be removed"));
    }
    let stuck: Vec<_> = runs.iter().filter(|run| !run.removed).collect();
    for run in &stuck {
        printer.warning(format_args!("run `{}` could not be removed", run.name));
    }
    if args.all {
        if sandbox.remove_shared().await? {
            printer.line("removed the egress network, the images of proxies and cached trust files");
        } else {
            printer.warning("the egress network, the images of proxies and cached trust files stay: another run uses them");
        }
    }
    if args.force {
        let removed = match &image {
            Some(image) => sandbox.remove_image(image).await?,
            None => Vec::new(),
        };
        for tag in &removed {
            printer.line(format_args!("removed image {tag}"));
        }
        if removed.is_empty() {
            printer.line("the project has no image");
        }
    } else {
        printer.hint("--force also removes the project's image");
    }
    Ok(if report.failed.is_empty() && stuck.is_empty() && report.git.failed.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::Infrastructure
    })
}
