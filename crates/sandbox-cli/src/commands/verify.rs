//! `verify`: whether the sandbox keeps its promises on this engine, in this image.

use std::fmt::Write as _;

use sandbox::{Check, Network, Sandbox, VerifyReport, VerifySpec};
use serde::Serialize;

use crate::args::Output;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::printer::{Printer, Style};
use crate::run_folder::RunFolder;
use crate::settings::VerifySettings;

/// Verifies, and takes everything down again.
pub(crate) async fn verify(
    settings: VerifySettings,
    output: Output,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let sandbox = Sandbox::connect(settings.sandbox.clone()).await?;
    let verified = tokio::select! {
        verified = in_sandbox(&sandbox, &settings, printer) => Ok(verified),
        interrupt = interrupts.next() => Err(interrupt),
    };
    if let Err(error) = sandbox.shutdown().await {
        printer.warning(format_args!(
            "something is left on the engine, and goes with the next run: {error}"
        ));
    }
    match verified {
        Ok(report) => Ok(print(&report?, output, printer)),
        Err(interrupt) => Ok(ExitStatus::Interrupted(interrupt)),
    }
}

async fn in_sandbox(
    sandbox: &Sandbox,
    settings: &VerifySettings,
    printer: Printer,
) -> Result<VerifyReport, Failure> {
    if matches!(settings.network, Network::Sandboxed(_)) {
        sandbox.startup().await?;
    } else {
        sandbox.sweep().await?;
    }
    let run = RunFolder::create(&settings.logs)?;
    let image = sandbox
        .ensure_image_logged(&settings.image, run.path(), |line| printer.progress(line))
        .await;
    run.close();
    let image = image?;
    let spec = VerifySpec::new(image, settings.isolation.clone(), settings.limits);
    let spec = settings
        .programs
        .iter()
        .fold(spec.network(settings.network.clone()), |spec, program| {
            spec.program(*program)
        });
    Ok(Box::pin(sandbox.verify(spec)).await?)
}

fn print(report: &VerifyReport, output: Output, printer: Printer) -> ExitStatus {
    match output {
        Output::Json => {
            printer.line(json(report));
        }
        Output::Text => {
            printer.data(text(report, printer).as_bytes());
        }
    }
    if report.held() {
        ExitStatus::Success
    } else {
        ExitStatus::Negative
    }
}

/// A line a promise; what was seen and the mend only where it does not hold.
fn text(report: &VerifyReport, printer: Printer) -> String {
    let width = |cell: fn(&Check) -> &str| {
        let widths = report.checks.iter().map(|check| cell(check).len());
        widths.max().unwrap_or_default()
    };
    let (first, second) = (width(|check| check.category.as_str()), width(|check| check.id));
    let mut text = String::new();
    for check in &report.checks {
        let (style, word) = if check.held {
            (Style::Good, "holds ")
        } else {
            (Style::Bad, "BROKEN")
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}  {:<first$}  {:<second$}  {}",
            printer.styled(style, word),
            check.category.as_str(),
            check.id,
            check.promise
        );
        if !check.held {
            let indent = " ".repeat(first + second + 12);
            let detail = printer.harmless(&check.detail).replace('\n', " ");
            let _ = writeln!(text, "{indent}seen: {detail}\n{indent}hint: {}", check.mend);
        }
    }
    let broken = report.broken().count();
    let _ = writeln!(text, "{} promises, {broken} broken", report.checks.len());
    text
}

/// The JSON form.
#[derive(Debug, Serialize)]
struct ReportForm<'a> {
    /// Rises when a field changes its meaning or goes away.
    version: u32,
    ok: bool,
    checks: Vec<CheckForm<'a>>,
}

#[derive(Debug, Serialize)]
struct CheckForm<'a> {
    id: &'a str,
    category: &'a str,
    promise: &'a str,
    held: bool,
    detail: &'a str,
    mend: Option<&'a str>,
}

fn json(report: &VerifyReport) -> String {
    let form = ReportForm {
        version: 1,
        ok: report.held(),
        checks: report
            .checks
            .iter()
            .map(|check| CheckForm {
                id: check.id,
                category: check.category.as_str(),
                promise: check.promise,
                held: check.held,
                detail: &check.detail,
                mend: (!check.held).then_some(check.mend),
            })
            .collect(),
    };
    // Texts always have a form in JSON.
    serde_json::to_string(&form).unwrap_or_default()
}
