//! `gate …`: the git repositories that tasks reach.

use std::path::Path;

use sandbox::gate::{Change, Gate, GateError, Repository, Rewrites, SyncReport};
use serde::Serialize;

use crate::args::{GateCommand, GateSyncArgs, Output};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::table::aligned;

/// Runs the subcommand. No file of a project is read.
pub(crate) async fn gate(
    command: GateCommand,
    state: &Path,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let gate = sandbox::gate::open(state);
    match command {
        GateCommand::Init(args) => {
            let repository = gate.init(&args.name, args.upstream.as_deref()).await?;
            printer.line(repository.path().display());
            if args.upstream.is_some() {
                printer.message(format_args!("fill it with `sandbox gate sync {}`", repository.name()));
            }
        }
        GateCommand::List(args) => list(&gate, args.output, printer).await?,
        GateCommand::Sync(args) => return sync(&gate, &args, printer).await,
    }
    Ok(ExitStatus::Success)
}

async fn list(gate: &Gate, output: Output, printer: Printer) -> Result<(), Failure> {
    let mut all = Vec::new();
    for repository in gate.list()? {
        let upstream = repository.upstream().await?;
        all.push((repository, upstream));
    }
    match output {
        Output::Text if all.is_empty() => {
            printer.message("no repositories; `sandbox gate init NAME` creates one");
        }
        Output::Text => {
            let row = |(repository, upstream): &(Repository, Option<String>)| {
                let cells = [
                    repository.name(),
                    &repository.path().to_string_lossy(),
                    upstream.as_deref().unwrap_or("-"),
                ];
                cells.map(sanitize_name).to_vec()
            };
            for line in aligned(&all.iter().map(row).collect::<Vec<_>>()) {
                printer.line(line);
            }
        }
        Output::Json => {
            let entry = |(repository, upstream): &(Repository, Option<String>)| JsonRepository {
                name: repository.name().to_owned(),
                path: repository.path().to_string_lossy().into_owned(),
                upstream: upstream.clone(),
            };
            let list = JsonList { version: 1, repositories: all.iter().map(entry).collect() };
            printer.line(serde_json::to_string_pretty(&list)?);
        }
    }
    Ok(())
}

async fn sync(gate: &Gate, args: &GateSyncArgs, printer: Printer) -> Result<ExitStatus, Failure> {
    let rewrites = if args.force { Rewrites::Apply } else { Rewrites::Keep };
    let mut reports = Vec::new();
    let mut failed = None;
    for repository in chosen(gate, &args.names).await? {
        let report = match repository.sync(rewrites).await {
            Ok(report) => report,
            Err(error) => {
                printer.warning(format_args!("{}: {error}", repository.name()));
                failed = Some(error);
                continue;
            }
        };
        if args.output == Output::Text {
            print(repository.name(), &report, printer);
        }
        reports.push(JsonSync { name: repository.name().to_owned(), report });
    }
    if args.output == Output::Json {
        printer.line(serde_json::to_string_pretty(&JsonSyncs { version: 1, repositories: &reports })?);
    } else if reports.iter().any(|sync| !sync.report.pending.is_empty()) && !args.force {
        printer.message("`sandbox gate sync --force` applies pending changes; the old refs are kept below refs/sandbox/backup/");
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(ExitStatus::Success),
    }
}

/// The named repositories, otherwise all with an upstream.
async fn chosen(gate: &Gate, names: &[String]) -> Result<Vec<Repository>, GateError> {
    if !names.is_empty() {
        return names.iter().map(|name| gate.repository(name)).collect();
    }
    let mut mirrors = Vec::new();
    for repository in gate.list()? {
        if repository.upstream().await?.is_some() {
            mirrors.push(repository);
        }
    }
    Ok(mirrors)
}

fn print(name: &str, report: &SyncReport, printer: Printer) {
    let short = |id: Option<&String>| id.and_then(|id| id.get(..12)).unwrap_or("-").to_owned();
    let row = |change: &Change, state: &str| {
        let ids = format!("{}..{}", short(change.old.as_ref()), short(change.new.as_ref()));
        vec![name.to_owned(), state.to_owned(), change.kind.to_string(), sanitize_name(&change.name), ids]
    };
    let applied = report.applied.iter().map(|change| row(change, "applied"));
    let pending = report.pending.iter().map(|change| row(change, "pending"));
    let rows: Vec<_> = applied.chain(pending).collect();
    if rows.is_empty() {
        printer.message(format_args!("{name} is up to date"));
    }
    for line in aligned(&rows) {
        printer.line(line);
    }
}

/// The document of `list --output json`.
#[derive(Serialize)]
struct JsonList {
    version: u32,
    repositories: Vec<JsonRepository>,
}

#[derive(Serialize)]
struct JsonRepository {
    name: String,
    path: String,
    upstream: Option<String>,
}

/// The document of `sync --output json`.
#[derive(Serialize)]
struct JsonSyncs<'a> {
    version: u32,
    repositories: &'a [JsonSync],
}

#[derive(Serialize)]
struct JsonSync {
    name: String,
    #[serde(flatten)]
    report: SyncReport,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    async fn run(state: &Path, arguments: &[&str]) -> Result<ExitStatus, Failure> {
        let cli = Cli::try_parse_from([&["sandbox", "gate"], arguments].concat()).unwrap();
        let Command::Gate(command) = cli.command else { panic!("another command") };
        gate(command, state, Printer::new(0, true)).await
    }

    #[tokio::test]
    async fn repositories_are_created_listed_and_updated() {
        let state = tempfile::tempdir().unwrap();
        let source = sandbox::gate::open(&state.path().join("upstream")).init("source", None).await.unwrap();
        let upstream = source.path().to_str().unwrap();
        run(state.path(), &["init", "mirror", "--upstream", upstream]).await.unwrap();
        run(state.path(), &["init", "alone"]).await.unwrap();
        for arguments in [
            ["list"].as_slice(),
            &["list", "--output", "json"],
            &["sync"],
            &["sync", "mirror", "--output", "json"],
        ] {
            run(state.path(), arguments).await.unwrap();
        }
        for (arguments, expected) in [
            (["sync", "missing"].as_slice(), "sandbox gate init missing"),
            (&["sync", "alone"], "no upstream"),
            (&["init", "a/b"], "not a valid repository name"),
            (&["init", "x", "--upstream", "ext::sh"], "failed to fetch from"),
        ] {
            let error = run(state.path(), arguments).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
