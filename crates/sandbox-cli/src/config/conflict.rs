//! Entries of a configuration that contradict each other.

use std::collections::BTreeMap;

use super::credentials::{SESSION_TOKEN, Source};
use super::file::ConfigFile;
use super::setting::Setting;
use located_yaml::{InvalidFile, Location};

/// A task with a surrogate must not get the real value in another way.
pub(super) fn refuse(file: &ConfigFile) -> Result<(), InvalidFile> {
    let mut taken: BTreeMap<&str, &Location> = BTreeMap::new();
    for (variable, location) in file.credentials.variables() {
        let shown = variable.escape_debug();
        let plain = file.env.get(variable).map(|value| ("env", value.location()));
        if let Some((key, other)) = plain.or_else(|| passed(file, variable)) {
            let message = format!(
                "the task gets a surrogate as `{shown}`, which `{key}` also sets, at {other}: remove it there"
            );
            return Err(InvalidFile::new(location, message));
        }
        if let Some(other) = taken.insert(variable, location) {
            let message = format!(
                "the task has a surrogate as `{shown}` already, from {other}: give this one another variable"
            );
            return Err(InvalidFile::new(location, message));
        }
    }
    for source in file.credentials.sources().filter_map(Source::variable_name) {
        let same = |setting: &&Setting| setting.variable_name() == Some(source);
        let plain = file.env.values().find(same).map(|value| ("env", value.location()));
        if let Some((key, location)) = plain.or_else(|| passed(file, source)) {
            let message = format!(
                "`{}` contains a secret that the task must not see, and `{key}` would reveal it: remove it here",
                source.escape_debug()
            );
            return Err(InvalidFile::new(location, message));
        }
    }
    refuse_session_token(file)
}

/// The variable that AWS clients read as the session token must belong to the signing key, or to no
/// key of the task.
fn refuse_session_token(file: &ConfigFile) -> Result<(), InvalidFile> {
    let plain = file.env.get(SESSION_TOKEN).map(|value| ("env", value.location()));
    match plain.or_else(|| passed(file, SESSION_TOKEN)) {
        Some((key, location)) if !file.credentials.signing.is_empty() => {
            let message = format!(
                "`{key}` sets {SESSION_TOKEN} although `signing_credentials` has the key: give it \
                 there, as `session_token`, or remove it"
            );
            Err(InvalidFile::new(location, message))
        }
        _ => Ok(()),
    }
}

fn passed<'a>(file: &'a ConfigFile, variable: &str) -> Option<(&'static str, &'a Location)> {
    file.pass_env.get(variable).map(|location| ("pass_env", location))
}
