//! The login of the agent in a run.

use std::path::PathBuf;
use std::time::SystemTime;

use located_yaml::{InvalidFile, Location};
use sandbox::credentials::{Injection, MaskedSecret, PreparedSecrets, SecretValue};
use sandbox::host_path::Resolver;
use sandbox_logins::{HttpsEndpoint, Login, LoginError, LoginKind, Tokens};

use crate::config::{CredentialsFile, Environment};
use crate::failure::{Failure, with_causes};

/// A login, and the hosts that get its access token.
#[derive(Debug, Clone)]
pub(crate) struct AgentLogin {
    name: String,
    location: Location,
    login: Login,
    endpoint: HttpsEndpoint,
    injection: Injection,
}

/// A file of the agent's state: its name and content.
pub(crate) type StateFile = (String, Vec<u8>);

impl AgentLogin {
    /// The login of this kind in a configuration. `state` is the folder for the state of logins.
    pub(crate) fn of(
        credentials: &CredentialsFile,
        kind: LoginKind,
        environment: &Environment,
        state: PathBuf,
        resolver: &Resolver,
    ) -> Result<Option<Self>, Failure> {
        let Some(entry) = credentials.logins.iter().find(|entry| entry.kind == kind) else {
            return Ok(None);
        };
        let (login, endpoint) = entry.open(environment, state, resolver)?;
        let (name, location) = (entry.name(), entry.location.clone());
        Ok(Some(Self { name, location, login, endpoint, injection: entry.injection.clone() }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn injection(&self) -> &Injection {
        &self.injection
    }

    /// The initial tokens. If they cannot be refreshed now, the existing ones must be valid for a
    /// while.
    pub(super) async fn tokens(&self) -> Result<Tokens, Failure> {
        let now = SystemTime::now();
        let tokens = match self.fresh(None).await {
            Err(error) if error.may_pass() => {
                let present = self.login.read();
                present
                    .ok()
                    .filter(|tokens| tokens.good_for(now).is_none_or(|left| !left.is_zero()))
                    .ok_or(error)
            }
            fresh => fresh,
        };
        tokens.map_err(|error| InvalidFile::new(&self.location, with_causes(&error)).into())
    }

    /// Valid tokens; an access token that was `refused` is not valid.
    pub(super) async fn fresh(&self, refused: Option<&SecretValue>) -> Result<Tokens, LoginError> {
        self.login.fresh(&self.endpoint, SystemTime::now(), refused).await
    }

    /// The tokens in the file.
    pub(super) fn read(&self) -> Result<Tokens, LoginError> {
        self.login.read()
    }

    pub(super) fn masked(&self, tokens: &Tokens) -> MaskedSecret {
        tokens.masked(&self.name, self.injection.clone())
    }

    /// The file in which the agent finds its login.
    pub(super) fn state_file(
        &self,
        tokens: &Tokens,
        secrets: &PreparedSecrets,
    ) -> Result<StateFile, Failure> {
        let problem = |text: String| Failure::from(InvalidFile::new(&self.location, text));
        let surrogate =
            secrets.surrogate(&self.name).ok_or_else(|| problem("its access token is empty".to_owned()))?;
        let content = tokens.task_file(surrogate).map_err(|error| problem(error.to_string()))?;
        Ok((self.login.kind().file_name().to_owned(), content))
    }
}
