//! `verify`: checks the sandbox's guarantees on this engine, in this image.

use std::fmt::Write as _;
use std::path::Path;

use sandbox::Sandbox;
use sandbox::diagnostics::{Finding, VerifyReport, VerifySpec};
use sandbox::image::ImageRequest;
use serde::Serialize;

use crate::args::Output;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::git_report::report_recovered;
use crate::interrupt::Interrupts;
use crate::printer::{Printer, Style};
use crate::run_folder::RunFolder;
use crate::settings::VerifySettings;

/// Verifies the guarantees, and cleans up.
pub(crate) async fn verify(
    settings: VerifySettings,
    output: Output,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let sandbox = Sandbox::start(settings.sandbox.clone()).await?;
    let verified = tokio::select! {
        verified = in_sandbox(&sandbox, &settings, printer) => Ok(verified),
        interrupt = interrupts.next() => Err(interrupt),
    };
    if let Err(error) = sandbox.shutdown().await {
        printer.warning(format_args!("objects remain on the engine; the next run removes them: {error}"));
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
    report_recovered(&sandbox.sweep_at_start().await?.git, Path::new(""), printer);
    let run = RunFolder::create(&settings.logs, sandbox.instance_id())?;
    let image = sandbox
        .ensure_image(
            ImageRequest::new(&settings.image)
                .network_log_dir(run.path())
                .on_line(|line| printer.progress(line)),
        )
        .await;
    run.close();
    let image = image?;
    let spec = VerifySpec::new(image, settings.isolation.clone(), settings.limits);
    let spec = settings
        .programs
        .iter()
        .fold(spec.network(settings.network.clone()), |spec, program| spec.program(*program));
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
    if report.held() { ExitStatus::Success } else { ExitStatus::Negative }
}

/// A line for each guarantee; with the observation and the hint if it does not hold.
fn text(report: &VerifyReport, printer: Printer) -> String {
    let width = |cell: fn(&Finding) -> &str| {
        let widths = report.findings.iter().map(|finding| cell(finding).len());
        widths.max().unwrap_or_default()
    };
    let first = width(|finding| finding.check.category().as_str());
    let second = width(|finding| finding.check.id());
    let mut text = String::new();
    for finding in &report.findings {
        let check = finding.check;
        let (style, word) = if finding.held { (Style::Good, "holds ") } else { (Style::Bad, "BROKEN") };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}  {:<first$}  {:<second$}  {}",
            printer.styled(style, word),
            check.category().as_str(),
            check.id(),
            check.guarantee()
        );
        if !finding.held {
            let indent = " ".repeat(first + second + 12);
            let detail = printer.sanitize(&finding.detail).replace('\n', " ");
            let _ = writeln!(text, "{indent}seen: {detail}\n{indent}hint: {}", check.fix());
        }
    }
    let broken = report.broken().count();
    let _ = writeln!(text, "{} guarantees, {broken} broken", report.findings.len());
    text
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct ReportForm<'a> {
    /// Rises when a field changes its meaning or is removed.
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
    hint: Option<&'a str>,
}

fn json(report: &VerifyReport) -> String {
    let form = ReportForm {
        version: 1,
        ok: report.held(),
        checks: report
            .findings
            .iter()
            .map(|finding| CheckForm {
                id: finding.check.id(),
                category: finding.check.category().as_str(),
                promise: finding.check.guarantee(),
                held: finding.held,
                detail: &finding.detail,
                hint: (!finding.held).then(|| finding.check.fix()),
            })
            .collect(),
    };
    // Serializing texts cannot fail.
    serde_json::to_string(&form).unwrap_or_default()
}
