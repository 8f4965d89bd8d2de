//! The credentials of a run: surrogates for the task, real values for its proxy, and messages about
//! them.

mod login;
mod renewal;

pub(crate) use login::{AgentLogin, StateFile};
pub(crate) use renewal::Renewal;

use allowlist::{Allowlist, HostPattern};
use located_yaml::InvalidFile;
use sandbox::credentials::PreparedSecrets;
use sandbox::host_path::Resolver;
use tokio::time::Instant;

use crate::config::{CredentialsFile, Environment};
use crate::failure::Failure;
use crate::printer::Printer;

/// The credentials of one run.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) secrets: PreparedSecrets,
    /// The files of the agent's login, with surrogates.
    pub(crate) state_files: Vec<StateFile>,
    /// The renewal of values that can be read again.
    pub(crate) renewal: Option<Renewal>,
}

/// Reads the values of a run, and creates its surrogates, which are different in each run.
pub(crate) async fn prepare(
    credentials: &CredentialsFile,
    login: Option<AgentLogin>,
    environment: &Environment,
    resolver: &Resolver,
) -> Result<Prepared, Failure> {
    let read_at = Instant::now();
    let login = match login {
        Some(login) => Some((login.tokens().await?, login)),
        None => None,
    };
    let read = credentials.read(environment, resolver).await;
    let masked = login.as_ref().map(|(tokens, login)| login.masked(tokens));
    let secrets = read.and_then(|read| read.prepare_with(masked, environment));
    let secrets = secrets.map_err(first_of)?;
    let state_file = login.as_ref().map(|(tokens, login)| login.state_file(tokens, &secrets));
    let values = renewal::values(credentials, login, read_at);
    let renewal = Renewal::new(values, secrets.clone(), environment, resolver);
    Ok(Prepared { secrets, state_files: state_file.into_iter().collect::<Result<_, _>>()?, renewal })
}

/// The first of the errors, with the number of the others.
fn first_of(problems: Vec<InvalidFile>) -> Failure {
    let others = problems.len().saturating_sub(1);
    let failure = match problems.into_iter().next() {
        Some(first) => Failure::from(first),
        None => Failure::new("failed to create surrogates"),
    };
    match others {
        0 => failure,
        _ => failure.with_hint(format!("{others} more errors: `sandbox config check` shows them all")),
    }
}

/// Reports the credentials of a run, and probable mistakes.
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
    for entry in &credentials.logins {
        let hosts = shown(&entry.injection.scopes);
        printer.note(format_args!("the login of {} is masked, for {hosts}", entry.kind.name()));
    }
    for advice in credentials.advice(environment, policy) {
        printer.warning(format_args!("{}: {}", advice.location, advice.message));
    }
}

/// The warning that surrogates do not work without a proxy; `None` without credentials.
pub(crate) fn without_proxy(credentials: &CredentialsFile) -> Option<String> {
    let logins = credentials.logins.iter().map(|entry| entry.kind.name());
    let variables = credentials.variables().map(|(variable, _)| variable);
    let variables: Vec<&str> = variables.chain(logins).collect();
    (!variables.is_empty()).then(|| {
        format!(
            "without the network sandbox, surrogates are not replaced by real values: services will refuse the values of {}",
            variables.join(", ")
        )
    })
}

/// Hosts in one line.
fn shown(scopes: &[HostPattern]) -> String {
    let hosts: Vec<&str> = scopes.iter().map(HostPattern::as_str).collect();
    hosts.join(", ")
}
