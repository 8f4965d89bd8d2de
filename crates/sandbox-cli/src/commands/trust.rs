//! `trust`: the rights that the project's files give, and the user's consent to them.

use std::path::Path;

use serde::Serialize;

use crate::args::{Output, TrustArgs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::settings::{Needs, Project};
use crate::table::aligned;
use crate::trust::{Changes, Record};

/// Shows which rights are new and which go, and records that the files are trusted unless they are only to be shown.
pub(crate) fn trust(args: &TrustArgs, project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    let store = project.trust_store();
    if args.revoke {
        let revoked = store.revoke().map_err(Failure::doing("forget what was trusted"))?;
        printer.message(if revoked {
            "nothing of this project is trusted any more"
        } else {
            "nothing of this project was trusted"
        });
        return Ok(ExitStatus::Success);
    }
    let review =
        project.review(Some(Needs { image: Some(&args.image), allowlist: args.allowlist.as_deref() }));
    let changes = review.changes(&project.root);
    let trusted = !args.show || review.is_recorded();
    if !args.show {
        review.trust(&store)?;
    }
    match args.output {
        Output::Json => {
            let digest = review.digest().to_string();
            print(&TrustReport { version: 2, digest, trusted, files: &changes }, printer);
        }
        Output::Text => {
            let text = changes.text(args.show);
            if !text.is_empty() {
                printer.line(text);
            }
            if review.is_empty() {
                printer.message("the project's files ask for nothing that needs trust");
            } else {
                printer.line(format_args!("digest: {}", review.digest()));
                printer.message(if trusted { "trusted" } else { "not trusted" });
            }
        }
    }
    Ok(ExitStatus::Success)
}

/// Lists what is trusted of all projects, by the folder of their records.
pub(crate) fn list(records: &Path, output: Output, printer: Printer) -> Result<ExitStatus, Failure> {
    let records = Record::all(records).map_err(Failure::doing("read what is trusted"))?;
    let projects: Vec<ProjectReport<'_>> = records.iter().map(ProjectReport::of).collect();
    match output {
        Output::Json => print(&ListReport { version: 1, projects }, printer),
        Output::Text if projects.is_empty() => printer.message("nothing is trusted of any project"),
        Output::Text => {
            let row = |project: &ProjectReport<'_>| {
                vec![
                    project.trusted_at.to_owned(),
                    project.rights.to_string(),
                    sanitize_name(project.project),
                ]
            };
            let head = ["TRUSTED", "RIGHTS", "PROJECT"].map(str::to_owned).to_vec();
            let rows: Vec<Vec<String>> = std::iter::once(head).chain(projects.iter().map(row)).collect();
            aligned(&rows).into_iter().all(|line| printer.line(line));
        }
    }
    Ok(ExitStatus::Success)
}

fn print(report: &impl Serialize, printer: Printer) {
    printer.line(serde_json::to_string(report).unwrap_or_default());
}

/// What `--output json` prints; it changes its version when a field changes its meaning or goes away.
#[derive(Debug, Serialize)]
struct TrustReport<'a> {
    version: u32,
    digest: String,
    trusted: bool,
    files: &'a Changes,
}

/// The same with `--list`.
#[derive(Debug, Serialize)]
struct ListReport<'a> {
    version: u32,
    projects: Vec<ProjectReport<'a>>,
}

#[derive(Debug, Serialize)]
struct ProjectReport<'a> {
    project: &'a str,
    /// When the last of its files was.
    trusted_at: &'a str,
    rights: usize,
    files: Vec<&'a str>,
}

impl<'a> ProjectReport<'a> {
    fn of(record: &'a Record) -> Self {
        let files = record.trusted();
        Self {
            project: &record.project,
            trusted_at: files.iter().map(|file| file.at.as_str()).max().unwrap_or_default(),
            rights: files.iter().map(|file| file.rights.len()).sum(),
            files: files.iter().map(|file| file.path.as_str()).collect(),
        }
    }
}
