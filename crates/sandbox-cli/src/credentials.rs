//! The credentials of a run: surrogates for the task, real values for its proxy, and what is said about them.

mod renewal;

pub(crate) use renewal::Renewal;

use allowlist::{Allowlist, HostPattern};
use sandbox::credentials::PreparedSecrets;
use sandbox::host_path::Resolver;

use crate::config::{CredentialsFile, Environment};
use crate::failure::Failure;
use crate::printer::Printer;

/// Reads the values of a run, and makes its surrogates: each run has its own.
pub(crate) async fn prepare(
    credentials: &CredentialsFile,
    environment: &Environment,
    resolver: &Resolver,
) -> Result<PreparedSecrets, Failure> {
    let read = credentials.read(environment, resolver).await;
    read.and_then(|read| read.prepare(environment)).map_err(|faults| {
        let others = faults.len().saturating_sub(1);
        let failure = match faults.into_iter().next() {
            Some(first) => Failure::from(first),
            None => Failure::new("failed to make surrogates"),
        };
        match others {
            0 => failure,
            _ => failure
                .with_hint(format!("there are {others} more like it: `sandbox config check` shows them all")),
        }
    })
}

/// Reports which credentials a run has, and what is probably not meant.
pub(crate) fn report(
    credentials: &CredentialsFile,
    environment: &Environment,
    policy: &Allowlist,
    printer: Printer,
) {
    for entry in &credentials.masked {
        let hosts = shown(&entry.injection.scopes);
        printer.note(format_args!("`{}` is masked, for {hosts}", entry.variable));
    }
    for entry in &credentials.signing {
        let variables = entry.variables().join(", ");
        let hosts = shown(&entry.scopes);
        printer.note(format_args!("{variables} are masked; requests are signed again for {hosts}"));
    }
    for advice in credentials.advice(environment, policy) {
        printer.warning(format_args!("{}: {}", advice.location, advice.message));
    }
}

/// What does not work without a proxy; nothing where there are no credentials.
pub(crate) fn without_proxy(credentials: &CredentialsFile) -> Option<String> {
    let variables: Vec<&str> = credentials.variables().map(|(variable, _)| variable).collect();
    (!variables.is_empty()).then(|| {
        format!(
            "without the network sandbox nothing puts real values in the place of surrogates: services will refuse what the task has as {}",
            variables.join(", ")
        )
    })
}

/// Hosts in one line.
fn shown(scopes: &[HostPattern]) -> String {
    let hosts: Vec<&str> = scopes.iter().map(HostPattern::as_str).collect();
    hosts.join(", ")
}
