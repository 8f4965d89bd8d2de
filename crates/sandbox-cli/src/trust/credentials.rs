//! The rights that the credentials of a configuration give: the sources that are read, and the
//! hosts that get the values.

use allowlist::Glob;
use sandbox::credentials::Injection;

use super::Rights;
use super::amount::time;
use crate::config::CredentialsFile;
use crate::printer::{plain_or_quoted, quoted};

/// Adds them to `rights`, a line for each source and for each host.
pub(super) fn credential_rights(credentials: &CredentialsFile, rights: &mut Rights) {
    for entry in &credentials.masked {
        let secret = format!("the secret {}", quoted(&entry.variable));
        let again = entry.ttl.map_or(String::new(), |ttl| format!(", again within {}", time(ttl.as_secs())));
        rights.ask(format!("{}, for {secret}{again}", entry.value.right()));
        send(&secret, &entry.injection, rights);
    }
    for entry in &credentials.signing {
        let key = format!("the key {}", quoted(&entry.name));
        let again = entry.ttl.map_or(String::new(), |ttl| format!(", again within {}", time(ttl.as_secs())));
        for (part, source) in ["the id", "the secret", "the session token"].into_iter().zip(entry.sources()) {
            rights.ask(format!("{}, for {part} of {key}{again}", source.right()));
        }
        let foreign = foreign(entry.allow_foreign_credentials);
        for scope in &entry.scopes {
            let scope = plain_or_quoted(scope.as_str());
            rights.ask(format!("sign requests to {scope} with {key}{foreign}"));
        }
    }
    for entry in &credentials.logins {
        let login = format!("your login of {}", entry.kind.name());
        rights.ask(entry.right());
        send(&login, &entry.injection, rights);
    }
}

/// Adds the right to send `what` to each host.
fn send(what: &str, injection: &Injection, rights: &mut Rights) {
    let headers: Vec<String> = injection.headers.iter().map(|header| quoted(header.as_str())).collect();
    let user = match injection.basic_user.as_ref().map(Glob::as_str) {
        None => String::new(),
        Some("") => " without a Basic user".to_owned(),
        Some(user) => format!(" with the Basic user {}", quoted(user)),
    };
    let flags = [
        foreign(injection.allow_foreign_credentials),
        if injection.allow_plaintext { ", also over plain HTTP" } else { "" },
        if injection.allow_echo { ", and let responses show it to the task" } else { "" },
    ];
    for scope in &injection.scopes {
        let scope = plain_or_quoted(scope.as_str());
        rights.ask(format!("send {what} to {scope}, in {}{user}{}", headers.join(", "), flags.concat()));
    }
}

fn foreign(is_allowed: bool) -> &'static str {
    if is_allowed { ", in addition to the task's own credentials" } else { "" }
}
