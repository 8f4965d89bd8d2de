//! `trust`: what the project's files ask for, and the user's consent to it.

use serde::Serialize;

use crate::args::{Output, TrustArgs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::{Needs, Project, Review};

/// Shows what is asked for, and records that it is trusted unless it is only to be shown.
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
    let needs = Needs { image: Some(&args.image), allowlist: args.allowlist.as_deref() };
    let review = project.review(Some(needs));
    let trusted = if args.show {
        review.is_recorded(&store)
    } else {
        review.record(&store)?;
        true
    };
    match args.output {
        Output::Json => drop(printer.line(json(&review, trusted))),
        Output::Text if review.is_empty() => {
            printer.message("the project's files ask for nothing that needs trust");
        }
        Output::Text => {
            printer.line(review.text(&project.root));
            printer.line(format_args!("digest: {}", review.digest()));
            printer.message(if trusted { "trusted" } else { "not trusted" });
        }
    }
    Ok(ExitStatus::Success)
}

/// What `--output json` prints; it changes its version when a field changes its meaning or goes away.
#[derive(Debug, Serialize)]
struct TrustReport<'a> {
    version: u32,
    digest: String,
    trusted: bool,
    files: Vec<FileReport<'a>>,
}

#[derive(Debug, Serialize)]
struct FileReport<'a> {
    path: String,
    requests: &'a [String],
}

fn json(review: &Review, trusted: bool) -> String {
    let files =
        review.requests().map(|(path, requests)| FileReport { path: path.display().to_string(), requests });
    let report =
        TrustReport { version: 1, digest: review.digest().to_string(), trusted, files: files.collect() };
    serde_json::to_string(&report).unwrap_or_default()
}
