//! A key that requests are signed with.

use allowlist::HostPattern;

use crate::SecretValue;

/// A secret that a container has in an environment variable.
#[derive(Debug, Clone)]
pub struct SecretVariable {
    /// The variable for the surrogate.
    pub name: String,
    /// The real value.
    pub value: SecretValue,
}

impl SecretVariable {
    /// The variable `name` for `value`.
    pub fn new(name: impl Into<String>, value: SecretValue) -> Self {
        Self { name: name.into(), value }
    }
}

/// An AWS access key. If id and secret are empty, both variables are set empty and nothing is
/// signed.
#[derive(Debug, Clone)]
pub struct AwsAccessKey {
    /// The name of the key in messages.
    pub name: String,
    /// Its id.
    pub access_key_id: SecretVariable,
    /// Its secret.
    pub secret_access_key: SecretVariable,
    /// The token of a temporary key. An empty one counts as absent: its variable is not set.
    pub session_token: Option<SecretVariable>,
    /// The hosts to which requests are signed with it.
    pub scopes: Vec<HostPattern>,
}

/// A key that signs requests, and is never sent.
#[derive(Debug, Clone)]
pub struct SigningCredential {
    pub(crate) key: AwsAccessKey,
    pub(crate) allow_foreign_credentials: bool,
}

impl SigningCredential {
    /// Signs requests with `key`.
    #[must_use]
    pub fn aws(key: AwsAccessKey) -> Self {
        Self { key, allow_foreign_credentials: false }
    }

    /// Whether requests to these hosts may carry another party's credential in `Authorization`, in
    /// a presigned URL or as a session token. Default false: a credential that was neither signed
    /// with the surrogates of this key nor inserted for a masked secret is removed, and the rest of
    /// the request is forwarded without a credential. If several keys have a host in scope, each
    /// must allow it.
    ///
    /// Some services issue tokens for another host (registries of ECR and `CodeArtifact`): these
    /// contain no real value, so they are foreign too. To use them, exclude that host from the
    /// key's scopes, or allow this.
    #[must_use]
    pub fn allow_foreign_credentials(mut self, allow: bool) -> Self {
        self.allow_foreign_credentials = allow;
        self
    }

    /// Its parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &SecretVariable> {
        [&self.key.access_key_id, &self.key.secret_access_key].into_iter().chain(&self.key.session_token)
    }
}
