//! A key that requests are signed with.

use allowlist::HostPattern;

use crate::SecretValue;

/// An AWS access key. Each part has the environment variable that its surrogate goes to.
#[derive(Debug, Clone)]
pub struct SigningCredential {
    pub(crate) name: String,
    pub(crate) access_key_id: (String, SecretValue),
    pub(crate) secret_access_key: (String, SecretValue),
    pub(crate) session_token: Option<(String, SecretValue)>,
    pub(crate) scopes: Vec<HostPattern>,
    pub(crate) allow_foreign_credentials: bool,
}

impl SigningCredential {
    /// The key called `name`, with which requests to hosts in `scopes` are signed. Each part is an environment variable and its value.
    ///
    /// If both values are empty, both variables are set empty and nothing is signed.
    #[must_use]
    pub fn aws(
        name: impl Into<String>,
        access_key_id: (String, SecretValue),
        secret_access_key: (String, SecretValue),
        scopes: Vec<HostPattern>,
    ) -> Self {
        Self {
            name: name.into(),
            access_key_id,
            secret_access_key,
            session_token: None,
            scopes,
            allow_foreign_credentials: false,
        }
    }

    /// Adds the token of a temporary key. An empty one is none: its variable is not set.
    #[must_use]
    pub fn session_token(mut self, variable: impl Into<String>, value: SecretValue) -> Self {
        self.session_token = Some((variable.into(), value));
        self
    }

    /// Whether requests to these hosts may carry somebody else's credential in `Authorization`, in a presigned URL or as a session
    /// token. Default not: whatever was not signed with the surrogates of this key, or put there for a masked secret, is removed, and the
    /// rest of the request goes on without a credential. With several keys in scope of a host, each has to allow it.
    ///
    /// Some services hand out tokens of their own, to be sent to another host (registries of ECR and `CodeArtifact`): no real value is in
    /// them, so they are foreign too. To use them, keep that host out of the key's scopes, or allow this.
    #[must_use]
    pub fn allow_foreign_credentials(mut self, allow: bool) -> Self {
        self.allow_foreign_credentials = allow;
        self
    }

    /// Every variable and its real value.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &(String, SecretValue)> {
        [&self.access_key_id, &self.secret_access_key]
            .into_iter()
            .chain(&self.session_token)
    }
}
