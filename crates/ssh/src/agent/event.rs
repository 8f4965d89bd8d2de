//! What the agent reports.

use crate::Scope;

/// A signature that was made or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignEvent {
    /// Whose keys the agent has.
    pub scope: Scope,
    /// The key that was asked for, where it is one of the scope's.
    pub fingerprint: Option<String>,
    /// What the signature is for, where that could be read: from whoever asked, so possibly anything. At most 64 characters, escaped.
    pub namespace: Option<String>,
    /// Whether it was made.
    pub outcome: Result<(), Refusal>,
}

/// Why the agent refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A message of no bytes or of more than 256 KiB.
    #[error("the length of a message is {0}")]
    Length(u32),
    /// A message was begun and not ended in time, or the connection ended within it.
    #[error("half a message")]
    Half,
    /// Something else than a list of keys or a signature was asked for.
    #[error("a request of type {0}")]
    Unsupported(u8),
    /// The request is too short or has something after its end.
    #[error("a malformed request")]
    Malformed,
    /// It is no key of the scope.
    #[error("an unknown key")]
    UnknownKey,
    /// What is to be signed is not what `ssh-keygen -Y sign` signs: a login, for example.
    #[error("not a signature of a namespace")]
    NotNamespaced,
    /// The namespace is not allowed.
    #[error("the namespace is not allowed")]
    Namespace,
    /// The flags ask for an algorithm that the key does not have.
    #[error("flags {0:#x}, which mean nothing for this key")]
    Flags(u32),
    /// The key failed.
    #[error("the key failed to sign")]
    Failed,
}
