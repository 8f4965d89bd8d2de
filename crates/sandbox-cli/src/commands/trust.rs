//! `trust`: the rights that the project's files give, and the user's consent to them.

use serde::Serialize;

use crate::args::{Output, TrustArgs};
use crate::config::{Environment, Places};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::settings::{Needs, Project};
use crate::table::aligned;
use crate::trust::{Changes, Record, Trust};

/// Shows added and removed rights, and records the files as trusted unless they are only to be
/// shown.
///
/// # Errors
///
/// When `flag` names the digest of other files.
pub(crate) fn trust(
    args: &TrustArgs,
    project: &Project,
    flag: &Trust,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let store = project.trust_store();
    if args.revoke {
        let revoked = store.revoke().map_err(Failure::doing("revoke the trust"))?;
        printer.message(if revoked {
            "this project is no longer trusted"
        } else {
            "this project was not trusted"
        });
        return Ok(ExitStatus::Success);
    }
    let review =
        project.review(Some(Needs { image: Some(&args.image), allowlist: args.allowlist.as_deref() }));
    let changes = review.changes(&project.root);
    let trusted = !args.show || review.is_recorded();
    if !args.show {
        if matches!(flag, Trust::Digest(digest) if digest != review.digest()) {
            return Err(project.refusal(&review, flag));
        }
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
                printer.message("the project's files request nothing that needs trust");
            } else {
                printer.line(format_args!("digest: {}", review.digest()));
                printer.message(if trusted { "trusted" } else { "not trusted" });
            }
        }
    }
    Ok(ExitStatus::Success)
}

/// Lists the trusted projects.
pub(crate) fn list(
    args: &TrustArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let folder = Places::find(environment)?.trust();
    let records = Record::all(&folder).map_err(Failure::doing("read the trust records"))?;
    let projects: Vec<ProjectReport<'_>> = records.iter().map(ProjectReport::of).collect();
    match args.output {
        Output::Json => print(&ListReport { version: 1, projects }, printer),
        Output::Text if projects.is_empty() => printer.message("no project is trusted"),
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

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct TrustReport<'a> {
    version: u32,
    digest: String,
    trusted: bool,
    files: &'a Changes,
}

/// The document of `--list --output json`.
#[derive(Debug, Serialize)]
struct ListReport<'a> {
    version: u32,
    projects: Vec<ProjectReport<'a>>,
}

#[derive(Debug, Serialize)]
struct ProjectReport<'a> {
    project: &'a str,
    /// The time of the latest decision about one of its files.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::args::ImageArgs;
    use crate::config::Environment;

    #[test]
    fn files_with_another_digest_are_not_trusted() {
        let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = root.path().canonicalize().unwrap();
        let environment = Environment::from([
            ("HOME", "/no/such/home"),
            ("XDG_STATE_HOME", state.path().to_str().unwrap()),
        ]);
        let printer = Printer::new(0, true);
        let write = |policy: &str| {
            fs::create_dir_all(root.join(".sandbox")).unwrap();
            fs::write(root.join(".sandbox/network-allowlist.yaml"), policy).unwrap();
            Project::load_at(&root, None, &environment, printer).unwrap()
        };
        let args = TrustArgs {
            image: ImageArgs::default(),
            allowlist: None,
            show: false,
            list: false,
            revoke: false,
            output: Output::Text,
        };
        let needs = Some(Needs { image: Some(&args.image), allowlist: None });
        let project = write("domains: [a.example]");
        let reviewed = Trust::Digest(project.review(needs).digest().clone());
        let project = write("domains: ['*']");
        let refused = trust(&args, &project, &reviewed, printer).unwrap_err().to_string();
        assert!(refused.starts_with("the digest of these project files is sha256:"));
        assert!(!project.review(needs).is_recorded());
        let project = write("domains: [a.example]");
        trust(&args, &project, &reviewed, printer).unwrap();
        assert!(project.review(needs).is_recorded());
    }
}
