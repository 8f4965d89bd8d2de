//! Credentials of a bundle, which has neither their values nor where those come from.

use located_yaml::{InvalidFile, Location, Position};
use sandbox::credentials::PreparedSecrets;
use sandbox_bundle::{SessionToken as BundledToken, Settings, SigningKey, Variable, VariableName};

use super::entry::{AWS_VARIABLES, CredentialsFile, MaskedEntry, SessionToken, SigningEntry};
use super::source::{PLACEHOLDER, Source};
use crate::config::Environment;

impl CredentialsFile {
    /// Those of a bundle, with the values of this host's variables with their names.
    pub(crate) fn of_bundle(settings: &Settings) -> Self {
        let location = Location::new("the bundle", Position::START);
        let source = |name: &VariableName| Source::variable(name.as_str(), location.clone());
        let masked = settings.variables.iter().filter_map(|(name, variable)| match variable {
            Variable::Masked(injection) => Some(MaskedEntry {
                variable: name.as_str().to_owned(),
                location: location.clone(),
                value: source(name),
                ttl: None,
                preset: None,
                injection: injection.clone(),
            }),
            Variable::Value(_) | Variable::Required(_) | Variable::IfSet(_) => None,
        });
        let signing = settings.signing.iter().map(|(name, key)| SigningEntry {
            name: name.clone(),
            location: location.clone(),
            access_key_id: source(&key.access_key_id),
            secret_access_key: source(&key.secret_access_key),
            session_token: match &key.session_token {
                BundledToken::None => SessionToken::None,
                BundledToken::Required(name) => SessionToken::Required(source(name)),
                BundledToken::IfSet(name) => SessionToken::IfSet(source(name)),
            },
            ttl: None,
            scopes: key.scopes.clone(),
            allow_foreign_credentials: key.allow_foreign_credentials,
        });
        Self { masked: masked.collect(), signing: signing.collect(), logins: Vec::new() }
    }

    /// Where the first value is that the file itself has.
    pub(crate) fn literal(&self) -> Option<&Location> {
        self.sources().find(|source| source.is_literal()).map(Source::location)
    }

    /// The secrets, with the values that are in the environment: nothing else may reveal them. Other
    /// values are not read.
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare).
    pub(crate) fn prepare_set(&self, environment: &Environment) -> Result<PreparedSecrets, Vec<InvalidFile>> {
        let unset = self.sources().filter_map(Source::variable_name);
        let unset = unset.filter(|name| environment.text(name).is_none());
        let environment = unset.fold(environment.clone(), |known, name| known.with(name, PLACEHOLDER));
        let mut known = self.with_placeholders();
        known.logins.clear();
        known.prepare(&environment)
    }
}

impl SigningEntry {
    /// The names of its parts, and its rules.
    pub(crate) fn bundled(&self) -> Result<SigningKey, &'static str> {
        let name = |source: &Source, usual: &str| {
            VariableName::try_from(source.variable_name().unwrap_or(usual).to_owned())
        };
        let [id, key, token] = AWS_VARIABLES;
        Ok(SigningKey {
            access_key_id: name(&self.access_key_id, id)?,
            secret_access_key: name(&self.secret_access_key, key)?,
            session_token: match &self.session_token {
                SessionToken::None => BundledToken::None,
                SessionToken::Required(source) => BundledToken::Required(name(source, token)?),
                SessionToken::IfSet(source) => BundledToken::IfSet(name(source, token)?),
            },
            scopes: self.scopes.clone(),
            allow_foreign_credentials: self.allow_foreign_credentials,
        })
    }
}
