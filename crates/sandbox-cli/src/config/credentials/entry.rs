//! Credentials as the configuration has them: where their values are, not what they are.

use allowlist::HostPattern;
use sandbox::credentials::{Injection, Preset};

use crate::config::setting::Setting;
use located_yaml::Location;

/// The variables that the task's AWS clients read: key id, secret key, session token.
pub(super) const AWS_VARIABLES: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", SESSION_TOKEN];
/// The third of them.
pub(in crate::config) const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";

/// All credentials of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CredentialsFile {
    pub(crate) masked: Vec<MaskedEntry>,
    pub(crate) signing: Vec<SigningEntry>,
}

/// A secret that the task holds a surrogate of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MaskedEntry {
    /// The variable of the task that has the surrogate.
    pub(crate) variable: String,
    /// Where the entry begins.
    pub(crate) location: Location,
    pub(crate) value: Setting,
    pub(crate) preset: Option<Preset>,
    pub(crate) injection: Injection,
}

/// A key that requests are signed again with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SigningEntry {
    /// Means nothing but to its author.
    pub(crate) name: String,
    /// Where the entry begins.
    pub(crate) location: Location,
    pub(crate) access_key_id: Setting,
    pub(crate) secret_access_key: Setting,
    pub(crate) session_token: SessionToken,
    pub(crate) scopes: Vec<HostPattern>,
    pub(crate) allow_foreign_credentials: bool,
}

/// The third part of a temporary key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SessionToken {
    /// The key has none.
    None,
    /// It has to be there.
    Required(Setting),
    /// The environment has one or has not.
    IfSet(Setting),
}

impl CredentialsFile {
    /// Each variable that the task gets a surrogate in, and where the entry behind it begins.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &Location)> {
        let masked = self.masked.iter().map(|entry| (entry.variable.as_str(), &entry.location));
        let signing = self.signing.iter().flat_map(|entry| {
            let of_entry = move |variable| (variable, &entry.location);
            entry.variables().into_iter().map(of_entry)
        });
        masked.chain(signing)
    }

    /// Each value, where it comes from.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &Setting> {
        let masked = self.masked.iter().map(|entry| &entry.value);
        masked.chain(self.signing.iter().flat_map(SigningEntry::settings))
    }
}

impl SigningEntry {
    /// The variables that the task gets surrogates in: those behind `!env`, else those that every AWS client reads.
    pub(crate) fn variables(&self) -> Vec<&str> {
        let settings = self.settings().zip(AWS_VARIABLES);
        settings.map(|(setting, usual)| setting.variable_name().unwrap_or(usual)).collect()
    }

    fn settings(&self) -> impl Iterator<Item = &Setting> {
        [&self.access_key_id, &self.secret_access_key].into_iter().chain(self.session_token.setting())
    }
}

impl SessionToken {
    pub(crate) fn setting(&self) -> Option<&Setting> {
        match self {
            Self::None => None,
            Self::Required(setting) | Self::IfSet(setting) => Some(setting),
        }
    }
}
