//! Validation before surrogates are created.

use std::collections::HashSet;

use crate::limits::VALUE_LIMIT;
use crate::{AwsAccessKey, MaskedSecret, SecretError, SecretValue, SigningCredential};

/// Checks names, variables, scopes, headers and values. Empty secrets are checked too, so that a
/// mistake is found before they are set.
pub(crate) fn check(masked: &[MaskedSecret], signing: &[SigningCredential]) -> Result<(), SecretError> {
    let mut variables = HashSet::new();
    for secret in masked {
        check_variable(&secret.variable, &mut variables)?;
        if secret.injection.scopes.is_empty() {
            return Err(no_scopes(&secret.variable));
        }
        if secret.injection.headers.is_empty() {
            return Err(SecretError::NoHeaders { credential: secret.variable.clone() });
        }
        check_value(&secret.variable, &secret.value)?;
    }
    let mut names = HashSet::new();
    for credential in signing {
        let key = &credential.key;
        if !names.insert(key.name.as_str()) {
            return Err(SecretError::DuplicateName { name: key.name.clone() });
        }
        if key.scopes.is_empty() {
            return Err(no_scopes(&key.name));
        }
        for part in credential.parts() {
            check_variable(&part.name, &mut variables)?;
            check_value(&part.name, &part.value)?;
        }
        check_halves(key)?;
    }
    Ok(())
}

fn check_variable<'a>(variable: &'a str, seen: &mut HashSet<&'a str>) -> Result<(), SecretError> {
    if variable.is_empty() || variable.contains(['=', '\0']) {
        // If a user wrote `NAME=value` as the name, the value must not appear in a log.
        let shown = variable.split(['=', '\0']).next().unwrap_or_default();
        return Err(SecretError::VariableName { variable: shown.to_owned() });
    }
    if !seen.insert(variable) {
        return Err(SecretError::DuplicateVariable { variable: variable.to_owned() });
    }
    Ok(())
}

pub(crate) fn check_value(variable: &str, value: &SecretValue) -> Result<(), SecretError> {
    let variable = variable.to_owned();
    if value.expose().contains('\0') {
        return Err(SecretError::Nul { variable });
    }
    if value.expose().len() > VALUE_LIMIT {
        return Err(SecretError::TooLong { variable });
    }
    Ok(())
}

fn check_halves(key: &AwsAccessKey) -> Result<(), SecretError> {
    let halves = [&key.access_key_id, &key.secret_access_key];
    let empty = halves.iter().find(|half| half.value.is_empty());
    match empty {
        Some(half) if halves.iter().any(|half| !half.value.is_empty()) => {
            Err(SecretError::HalfKey { name: key.name.clone(), variable: half.name.clone() })
        }
        _ => Ok(()),
    }
}

fn no_scopes(credential: &str) -> SecretError {
    SecretError::NoScopes { credential: credential.to_owned() }
}
