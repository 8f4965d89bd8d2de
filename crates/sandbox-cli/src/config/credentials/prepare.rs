//! From entries to surrogates.

use std::slice;

use sandbox::credentials::{
    AwsAccessKey, MaskedSecret, PreparedSecrets, SecretVariable, SigningCredential, prepare_secrets,
};

use super::entry::{AWS_VARIABLES, CredentialsFile, MaskedEntry, SessionToken, SigningEntry};
use super::source::Source;
use crate::config::Environment;
use located_yaml::{InvalidFile, Location};

impl CredentialsFile {
    /// Looks up the values and creates a surrogate for each. Values kept on the host must have been
    /// [read](Self::read) before.
    ///
    /// # Errors
    ///
    /// All errors; at least one.
    pub(crate) fn prepare(&self, environment: &Environment) -> Result<PreparedSecrets, Vec<InvalidFile>> {
        self.prepare_with(None, environment)
    }

    /// The same, with the access token of a login.
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare).
    pub(crate) fn prepare_with(
        &self,
        login: Option<MaskedSecret>,
        environment: &Environment,
    ) -> Result<PreparedSecrets, Vec<InvalidFile>> {
        let mut problems = Vec::new();
        let mut masked = Vec::from_iter(login);
        for entry in &self.masked {
            let secret = entry.resolve(environment).and_then(|secret| {
                prepared(slice::from_ref(&secret), &[], &entry.location)?;
                Ok(secret)
            });
            match secret {
                Ok(secret) => masked.push(secret),
                Err(problem) => problems.push(problem),
            }
        }
        let mut signing = Vec::new();
        for entry in &self.signing {
            let key = entry.resolve(environment).and_then(|key| {
                prepared(&[], slice::from_ref(&key), &entry.location).map_err(|problem| vec![problem])?;
                Ok(key)
            });
            match key {
                Ok(key) => signing.push(key),
                Err(mut of_entry) => problems.append(&mut of_entry),
            }
        }
        // An error of the entries as a whole is reported at the first one.
        let logins = self.logins.iter().map(|entry| &entry.location);
        match self.variables().map(|(_, location)| location).chain(logins).next() {
            _ if !problems.is_empty() => Err(problems),
            Some(first) => prepared(&masked, &signing, first).map_err(|problem| vec![problem]),
            None => prepare_secrets(&masked, &signing).map_err(|_| Vec::new()),
        }
    }
}

fn prepared(
    masked: &[MaskedSecret],
    signing: &[SigningCredential],
    location: &Location,
) -> Result<PreparedSecrets, InvalidFile> {
    prepare_secrets(masked, signing).map_err(|error| InvalidFile::new(location, error.to_string()))
}

impl MaskedEntry {
    fn resolve(&self, environment: &Environment) -> Result<MaskedSecret, InvalidFile> {
        let value = self.value.resolve(environment)?;
        Ok(MaskedSecret::new(&self.variable, value, self.injection.clone()))
    }
}

impl SigningEntry {
    fn resolve(&self, environment: &Environment) -> Result<SigningCredential, Vec<InvalidFile>> {
        let [id_variable, secret_variable, token_variable] = AWS_VARIABLES;
        let part = |source: &Source, usual: &str| {
            let variable = source.variable_name().unwrap_or(usual).to_owned();
            source.resolve(environment).map(|value| SecretVariable::new(variable, value))
        };
        let id = part(&self.access_key_id, id_variable);
        let secret = part(&self.secret_access_key, secret_variable);
        let token = match &self.session_token {
            SessionToken::None => Ok(None),
            SessionToken::Required(setting) => part(setting, token_variable).map(Some),
            SessionToken::IfSet(setting) => Ok(part(setting, token_variable).ok()),
        };
        match (id, secret, token) {
            (Ok(id), Ok(secret), Ok(token)) => {
                let key = AwsAccessKey {
                    name: self.name.clone(),
                    access_key_id: id,
                    secret_access_key: secret,
                    session_token: token.filter(|token| !token.value.is_empty()),
                    scopes: self.scopes.clone(),
                };
                let allow = self.allow_foreign_credentials;
                Ok(SigningCredential::aws(key).allow_foreign_credentials(allow))
            }
            (id, secret, token) => Err([id.err(), secret.err(), token.err()].into_iter().flatten().collect()),
        }
    }
}
