//! `clean`: removing what ended runs left.

use sandbox::{Sandbox, SandboxConfig};

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;

/// Removes what nobody owns any more and says what that was; with `all`, also what runs share.
pub(crate) async fn clean(config: SandboxConfig, all: bool, printer: Printer) -> Result<ExitStatus, Failure> {
    let sandbox = Sandbox::connect(config).await?;
    let report = sandbox.sweep().await?;
    let (containers, networks) = (&report.containers, &report.networks);
    for (kind, names) in [("container", containers), ("network", networks)] {
        for name in names {
            printer.line(format_args!("removed {kind} {name}"));
        }
    }
    if containers.is_empty() && networks.is_empty() {
        printer.line("no ended run left anything");
    }
    for name in &report.failed {
        printer.warning(format_args!("`{name}` could not be removed"));
    }
    if all {
        if sandbox.remove_shared().await? {
            printer.line("removed the egress network and cached trust files");
        } else {
            printer.warning("the egress network and cached trust files stay: another run uses them");
        }
    }
    Ok(if report.failed.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::Infrastructure
    })
}
