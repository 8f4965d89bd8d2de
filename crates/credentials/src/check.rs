//! What must hold before surrogates are made.

use std::collections::HashSet;

use crate::limits::VALUE_LIMIT;
use crate::{MaskedSecret, SecretError, SecretValue, SigningCredential};

/// Checks names, variables, places and values. Empty secrets are checked like others, so that a mistake does not show only once they
/// are set.
pub(crate) fn check(masked: &[MaskedSecret], signing: &[SigningCredential]) -> Result<(), SecretError> {
    let mut variables = HashSet::new();
    for secret in masked {
        check_variable(&secret.variable, &mut variables)?;
        if secret.injection.scopes.is_empty() {
            return Err(no_scopes(&secret.variable));
        }
        if secret.injection.headers.is_empty() {
            return Err(SecretError::NoHeaders {
                credential: secret.variable.clone(),
            });
        }
        check_value(&secret.variable, &secret.value)?;
    }
    let mut names = HashSet::new();
    for credential in signing {
        if !names.insert(credential.name.as_str()) {
            return Err(SecretError::DuplicateName {
                name: credential.name.clone(),
            });
        }
        if credential.scopes.is_empty() {
            return Err(no_scopes(&credential.name));
        }
        for (variable, value) in credential.parts() {
            check_variable(variable, &mut variables)?;
            check_value(variable, value)?;
        }
        check_halves(credential)?;
    }
    Ok(())
}

fn check_variable<'a>(variable: &'a str, seen: &mut HashSet<&'a str>) -> Result<(), SecretError> {
    if variable.is_empty() || variable.contains(['=', '\0']) {
        // Whoever wrote `NAME=value` for the name shall not find the value in a log.
        let shown = variable.split(['=', '\0']).next().unwrap_or_default();
        return Err(SecretError::VariableName {
            variable: shown.to_owned(),
        });
    }
    if !seen.insert(variable) {
        return Err(SecretError::DuplicateVariable {
            variable: variable.to_owned(),
        });
    }
    Ok(())
}

fn check_value(variable: &str, value: &SecretValue) -> Result<(), SecretError> {
    let variable = variable.to_owned();
    if value.expose().contains('\0') {
        return Err(SecretError::Nul { variable });
    }
    if value.expose().len() > VALUE_LIMIT {
        return Err(SecretError::TooLong { variable });
    }
    Ok(())
}

fn check_halves(credential: &SigningCredential) -> Result<(), SecretError> {
    let halves = [&credential.access_key_id, &credential.secret_access_key];
    let empty = halves.iter().find(|(_, value)| value.is_empty());
    match empty {
        Some((variable, _)) if halves.iter().any(|(_, value)| !value.is_empty()) => {
            Err(SecretError::HalfKey {
                name: credential.name.clone(),
                variable: variable.clone(),
            })
        }
        _ => Ok(()),
    }
}

fn no_scopes(credential: &str) -> SecretError {
    SecretError::NoScopes {
        credential: credential.to_owned(),
    }
}
