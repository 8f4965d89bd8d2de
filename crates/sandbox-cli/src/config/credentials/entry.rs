//! Credentials as the configuration describes them: the sources of their values, not the values.

use std::time::Duration;

use allowlist::HostPattern;
use sandbox::Agent;
use sandbox::credentials::{Injection, Preset};

use super::login::LoginEntry;
use super::source::Source;
use crate::config::Environment;
use located_yaml::{Location, Position};

/// The variables that the task's AWS clients read: key id, secret key, session token.
pub(super) const AWS_VARIABLES: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", SESSION_TOKEN];
/// The third of them.
pub(in crate::config) const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";

/// All credentials of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CredentialsFile {
    pub(crate) masked: Vec<MaskedEntry>,
    pub(crate) signing: Vec<SigningEntry>,
    pub(crate) logins: Vec<LoginEntry>,
}

/// A secret that the task holds a surrogate of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MaskedEntry {
    /// The variable of the task that has the surrogate.
    pub(crate) variable: String,
    /// Where the entry begins.
    pub(crate) location: Location,
    pub(crate) value: Source,
    /// How long a value that is read from the host is valid.
    pub(crate) ttl: Option<Duration>,
    pub(crate) preset: Option<Preset>,
    pub(crate) injection: Injection,
}

/// A key that requests are signed again with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SigningEntry {
    /// An arbitrary name.
    pub(crate) name: String,
    /// Where the entry begins.
    pub(crate) location: Location,
    pub(crate) access_key_id: Source,
    pub(crate) secret_access_key: Source,
    pub(crate) session_token: SessionToken,
    /// How long a part that is read from the host is valid.
    pub(crate) ttl: Option<Duration>,
    pub(crate) scopes: Vec<HostPattern>,
    pub(crate) allow_foreign_credentials: bool,
}

/// The third part of a temporary key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SessionToken {
    /// The key has none.
    None,
    /// It must exist.
    Required(Source),
    /// Optional in the environment.
    IfSet(Source),
}

impl CredentialsFile {
    /// The keys of `agent` that are in the environment, each masked by its preset.
    pub(crate) fn of_environment(agent: &Agent, environment: &Environment) -> Self {
        let location = Location::new("the environment", Position::START);
        let set = agent.credentials().filter(|(variable, _)| environment.text(variable).is_some());
        let masked = set.filter_map(|(variable, preset)| {
            let preset: Preset = preset.parse().ok()?;
            Some(MaskedEntry {
                variable: variable.to_owned(),
                location: location.clone(),
                value: Source::variable(variable, location.clone()),
                ttl: None,
                preset: Some(preset),
                injection: preset.injection(),
            })
        });
        Self { masked: masked.collect(), ..Self::default() }
    }

    /// The same, and those of `user` that have other names.
    pub(in crate::config) fn over(mut self, user: Self) -> Self {
        let has = |name: &str, names: &[String]| names.iter().any(|other| other == name);
        let masked: Vec<String> = self.masked.iter().map(|entry| entry.variable.clone()).collect();
        self.masked.extend(user.masked.into_iter().filter(|entry| !has(&entry.variable, &masked)));
        let signing: Vec<String> = self.signing.iter().map(|entry| entry.name.clone()).collect();
        self.signing.extend(user.signing.into_iter().filter(|entry| !has(&entry.name, &signing)));
        let logins: Vec<String> = self.logins.iter().map(|entry| entry.kind.name().to_owned()).collect();
        self.logins.extend(user.logins.into_iter().filter(|entry| !has(entry.kind.name(), &logins)));
        self
    }

    /// Each variable of the task with a surrogate, and the location of its entry.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &Location)> {
        let masked = self.masked.iter().map(|entry| (entry.variable.as_str(), &entry.location));
        let signing = self.signing.iter().flat_map(|entry| {
            let of_entry = move |variable| (variable, &entry.location);
            entry.variables().into_iter().map(of_entry)
        });
        masked.chain(signing)
    }

    /// The source of each value.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        let masked = self.masked.iter().map(|entry| &entry.value);
        masked.chain(self.signing.iter().flat_map(SigningEntry::sources))
    }
}

impl SigningEntry {
    /// The variables of the task with surrogates: those named by `!env`, otherwise those that every
    /// AWS client reads.
    pub(crate) fn variables(&self) -> Vec<&str> {
        let sources = self.sources().zip(AWS_VARIABLES);
        sources.map(|(source, usual)| source.variable_name().unwrap_or(usual)).collect()
    }

    /// Its parts.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        [&self.access_key_id, &self.secret_access_key].into_iter().chain(self.session_token.source())
    }
}

impl SessionToken {
    pub(crate) fn source(&self) -> Option<&Source> {
        match self {
            Self::None => None,
            Self::Required(source) | Self::IfSet(source) => Some(source),
        }
    }
}
