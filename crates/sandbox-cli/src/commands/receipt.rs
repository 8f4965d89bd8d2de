//! `receipt …`: what a host states, and signs, about its run of a bundle.

use std::ffi::OsStr;
use std::path::Path;

use sandbox::host_path::Found;
use sandbox_bundle::{AgentSummary, Digest, Ended, Receipt, ReceiptKey, ReceiptPublicKey, RequestedHost};
use serde::Serialize;

use super::bundle::{ascii, dollars};
use super::result_copy::verified;
use crate::args::{Output, ReceiptCommand, VerifyReceiptArgs};
use crate::bundle_result::{CHANGES, RECEIPT};
use crate::config::{Environment, Places};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, plain_or_quoted, sanitize_name};
use crate::receipt_key::{existing, receipt_key};
use crate::table::aligned;
use crate::trust::time;

/// Bytes of a receipt, with 1,000 long hosts.
const LONGEST: u64 = 8 << 20;
/// Bytes of a key.
const LONGEST_KEY: u64 = 1 << 12;

/// Runs the subcommand.
pub(crate) fn receipt(
    command: &ReceiptCommand,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let places = Places::find(environment)?;
    match command {
        ReceiptCommand::Key => {
            if existing(&places)?.is_none() {
                let state = sanitize_name(&places.state.display().to_string());
                printer.message(format_args!("this key is new: `{state}` had none"));
            }
            printer.line(receipt_key(&places)?.public().to_pem().trim_end());
        }
        ReceiptCommand::Verify(args) => verify(args, &places, printer)?,
    }
    Ok(ExitStatus::Success)
}

fn verify(args: &VerifyReceiptArgs, places: &Places, printer: Printer) -> Result<(), Failure> {
    let resolver = places.resolver_without_tree()?;
    let folder = resolver.find(&args.result)?;
    let shown = sanitize_name(&folder.path().display().to_string());
    let key = |path: &Path| -> Result<ReceiptPublicKey, Failure> {
        let shown = sanitize_name(&path.display().to_string());
        let text = String::from_utf8_lossy(&resolver.find(path)?.read(LONGEST_KEY)?).into_owned();
        ReceiptPublicKey::from_pem(&text).map_err(Failure::doing(format!("read `{shown}`")))
    };
    let keys: Vec<_> = match &args.keys[..] {
        [] => existing(places)?.iter().map(ReceiptKey::public).collect(),
        files => files.iter().map(|path| key(path)).collect::<Result<_, _>>()?,
    };
    if keys.is_empty() {
        return Err(Failure::usage("this host has no key of its own").with_hint(
            "pass --key with the file that `sandbox receipt key` wrote on the host that ran the bundle",
        ));
    }
    let (receipt, digest) = read(&folder, &keys).map_err(Failure::doing(format!("verify `{shown}`")))?;
    match args.output {
        Output::Json => {
            let report = ReceiptReport { version: 1, digest, receipt };
            printer.line(ascii(&serde_json::to_string(&report)?));
        }
        Output::Text => {
            let lines = described(&receipt, &digest);
            let _ = aligned(&lines).iter().all(|line| printer.line(line));
        }
    }
    Ok(())
}

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct ReceiptReport {
    version: u32,
    digest: Digest,
    receipt: Receipt,
}

/// The receipt of the result in `folder`, and its digest. Every file of the result is verified.
fn read(folder: &Found, keys: &[ReceiptPublicKey]) -> anyhow::Result<(Receipt, Digest)> {
    let (record, changes) = verified(folder)?;
    record.outcome.changes.verify(changes.file()?, CHANGES)?;
    let text = folder.child(OsStr::new(RECEIPT))?.read(LONGEST)?;
    Ok((Receipt::verify(&text, &record, keys)?, Digest::of(&text)))
}

/// The lines about a receipt. Hosts are the command's words.
fn described(receipt: &Receipt, digest: &Digest) -> Vec<Vec<String>> {
    let Receipt { bundle, tree, policy, policy_changed, image, changes, ended, .. } = receipt;
    let end = match ended {
        Ended::Exited => format!("exit code {}", receipt.exit_code),
        Ended::TimedOut => "time limit".to_owned(),
    };
    let host = |RequestedHost { host, permitted, refused }: &RequestedHost| {
        let host = if host.is_empty() { "(unknown)".to_owned() } else { plain_or_quoted(host) };
        let rows = [("permitted", *permitted), ("refused", *refused)].into_iter();
        rows.filter(|(_, count)| *count > 0)
            .map(move |(name, count)| (name, format!("{host} ({count})")))
            .collect::<Vec<_>>()
    };
    let agent = receipt.agent.map(|AgentSummary { outcome, turns, microdollars }| {
        let cost = dollars(microdollars);
        ("agent", format!("{}, {turns} turns, {cost} at list prices", outcome.as_str()))
    });
    let lines = [
        ("bundle", bundle.to_string()),
        ("tree", tree.to_string()),
        ("policy", format!("{policy}{}", if *policy_changed { ", changed during the run" } else { "" })),
        ("image", plain_or_quoted(image)),
        ("changes", changes.to_string()),
        ("ended", format!("{end}, after {}", time(receipt.duration_ms / 1_000))),
    ];
    let more = (receipt.hosts_more > 0).then(|| ("hosts", format!("and {} more", receipt.hosts_more)));
    let trailer = ("trailer", format!("Sandbox-Receipt: sha256:{digest}"));
    let lines = lines
        .into_iter()
        .chain(agent)
        .chain(receipt.hosts.iter().flat_map(host))
        .chain(more)
        .chain([trailer]);
    lines.map(|(name, value)| vec![name.to_owned(), value]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_receipt_is_read() {
        let digest = Digest::of(b"x");
        // A host has at most 512 bytes, of which each may take six as JSON.
        let host = RequestedHost { host: "\u{1}".repeat(512), permitted: 1, refused: 1 };
        let receipt = Receipt {
            bundle: digest,
            tree: digest,
            policy: digest,
            policy_changed: false,
            image: "x".repeat(1_000),
            changes: digest,
            ended: Ended::Exited,
            exit_code: 0,
            agent: None,
            duration_ms: u64::MAX,
            hosts: vec![host; 1_000],
            hosts_more: u64::MAX,
        };
        let length = serde_json::to_string(&receipt).unwrap().len() as u64 * 4 / 3;
        assert!(length > LONGEST / 3 && length < LONGEST, "{length}");
    }
}
