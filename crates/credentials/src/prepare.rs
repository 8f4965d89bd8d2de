//! Creates surrogates for secrets.

use std::collections::BTreeMap;

use rand::CryptoRng;

use crate::check::{check, check_value};
use crate::replacement::{MaskedReplacement, Replacement, SigningReplacement};
use crate::surrogate::{Form, Mint};
use crate::{
    AwsAccessKey, MaskedSecret, SecretError, SecretReplacements, SecretValue, SecretVariable,
    SigningCredential,
};

/// The surrogates for a container, and the replacements for its proxy.
#[derive(Debug, Clone)]
pub struct PreparedSecrets {
    env_vars: BTreeMap<String, String>,
    /// Surrogates without a variable, by name.
    in_files: BTreeMap<String, String>,
    replacements: SecretReplacements,
}

impl PreparedSecrets {
    /// The container's environment: surrogates only.
    #[must_use]
    pub fn env_vars(&self) -> &BTreeMap<String, String> {
        &self.env_vars
    }

    /// The surrogate of the secret with the variable or the name `name`.
    #[must_use]
    pub fn surrogate(&self, name: &str) -> Option<&str> {
        let surrogate = self.env_vars.get(name).or_else(|| self.in_files.get(name))?;
        (!surrogate.is_empty()).then_some(surrogate)
    }

    /// The map from surrogates to real values, for the proxy.
    #[must_use]
    pub fn replacements(&self) -> &SecretReplacements {
        &self.replacements
    }

    /// Replaces the real value whose surrogate has the variable or name `variable` with `value`.
    /// The surrogate stays the same, so a container notices nothing once its proxy gets the new
    /// [`replacements`](Self::replacements). Earlier clones of them are unchanged.
    ///
    /// # Errors
    ///
    /// If there is no surrogate for `variable`, or if `value` is empty, too long, or contained in
    /// its surrogate. Nothing is changed then.
    pub fn renew(&mut self, variable: &str, value: SecretValue) -> Result<(), SecretError> {
        check_value(variable, &value)?;
        let named = || variable.to_owned();
        let surrogate = self.surrogate(variable).map(str::to_owned);
        let surrogate = surrogate.ok_or_else(|| SecretError::NoSurrogate { variable: named() })?;
        if value.is_empty() {
            return Err(SecretError::Empty { variable: named() });
        }
        if surrogate.contains(value.expose()) {
            return Err(SecretError::TooShort { variable: named() });
        }
        if self.replacements.renew(&surrogate, value) {
            Ok(())
        } else {
            Err(SecretError::NoSurrogate { variable: named() })
        }
    }

    /// As above.
    #[must_use]
    pub fn into_replacements(self) -> SecretReplacements {
        self.replacements
    }
}

/// A meaningless text of the form of `value`, for a place where a container expects a secret that
/// it never needs.
///
/// # Errors
///
/// If `value` has too few letters and digits; `name` is its name in the error.
pub fn decoy(name: &str, value: &SecretValue) -> Result<String, SecretError> {
    Mint::new([value], &mut rand::rng()).surrogate(Form::Token, name, value)
}

/// Creates a surrogate for each secret, even for equal values. Each call creates new surrogates.
///
/// An empty secret sets its variable empty and has no replacement.
///
/// # Errors
///
/// See [`SecretError`]: credentials without a name, scope or header, two for one variable, and
/// values that do not fit into a header.
pub fn prepare_secrets(
    masked: &[MaskedSecret],
    signing: &[SigningCredential],
) -> Result<PreparedSecrets, SecretError> {
    prepare_with(masked, signing, &mut rand::rng())
}

fn prepare_with(
    masked: &[MaskedSecret],
    signing: &[SigningCredential],
    rng: &mut impl CryptoRng,
) -> Result<PreparedSecrets, SecretError> {
    check(masked, signing)?;
    let parts = signing.iter().flat_map(SigningCredential::parts);
    let real = masked.iter().map(|secret| &secret.value).chain(parts.map(|part| &part.value));
    let mut preparation = Preparation {
        mint: Mint::new(real, rng),
        env_vars: BTreeMap::new(),
        in_files: BTreeMap::new(),
        replacements: BTreeMap::new(),
    };
    for secret in masked {
        preparation.mask(secret)?;
    }
    for credential in signing {
        preparation.sign(credential)?;
    }
    Ok(PreparedSecrets {
        env_vars: preparation.env_vars,
        in_files: preparation.in_files,
        replacements: SecretReplacements::new(preparation.replacements),
    })
}

/// The work in progress.
struct Preparation<'a, R> {
    mint: Mint<'a, R>,
    env_vars: BTreeMap<String, String>,
    in_files: BTreeMap<String, String>,
    replacements: BTreeMap<String, Replacement>,
}

impl<R: CryptoRng> Preparation<'_, R> {
    fn mask(&mut self, secret: &MaskedSecret) -> Result<(), SecretError> {
        let MaskedSecret { variable, value, injection, in_file } = secret;
        let places = if in_file.is_some() { &mut self.in_files } else { &mut self.env_vars };
        if value.is_empty() {
            places.insert(variable.clone(), String::new());
            return Ok(());
        }
        let surrogate = match in_file.as_deref() {
            Some(start) if !start.is_empty() => self.mint.beginning_with(start, variable, value)?,
            _ => self.mint.surrogate(Form::Token, variable, value)?,
        };
        places.insert(variable.clone(), surrogate.clone());
        let (name, value, injection) = (variable.clone(), value.clone(), injection.clone());
        let replacement = Replacement::Masked(MaskedReplacement { name, value, injection });
        self.replacements.insert(surrogate, replacement);
        Ok(())
    }

    fn sign(&mut self, credential: &SigningCredential) -> Result<(), SecretError> {
        let AwsAccessKey { access_key_id, secret_access_key, session_token, scopes, .. } = &credential.key;
        let token = session_token.as_ref().filter(|token| !token.value.is_empty());
        if access_key_id.value.is_empty() {
            // The other half is empty too, as checked before; and a token without a key is
            // worthless.
            for part in [access_key_id, secret_access_key].into_iter().chain(token) {
                self.set(&part.name, "");
            }
            return Ok(());
        }
        let mut surrogate = |form, part: &SecretVariable| {
            let surrogate = self.mint.surrogate(form, &part.name, &part.value)?;
            self.env_vars.insert(part.name.clone(), surrogate.clone());
            Ok(surrogate)
        };
        let surrogate_id = surrogate(Form::Key, access_key_id)?;
        let surrogate_key = surrogate(Form::Key, secret_access_key)?;
        let session_token = match token {
            Some(token) => Some((token.value.clone(), surrogate(Form::SessionToken, token)?)),
            None => None,
        };
        let replacement = Replacement::Signing(SigningReplacement {
            name: credential.key.name.clone(),
            access_key_id: access_key_id.value.clone(),
            secret_access_key: secret_access_key.value.clone(),
            surrogate_secret_access_key: surrogate_key,
            session_token,
            scopes: scopes.clone(),
            allow_foreign_credentials: credential.allow_foreign_credentials,
        });
        self.replacements.insert(surrogate_id, replacement);
        Ok(())
    }

    fn set(&mut self, variable: &str, value: &str) {
        self.env_vars.insert(variable.to_owned(), value.to_owned());
    }
}

#[cfg(test)]
mod tests;
