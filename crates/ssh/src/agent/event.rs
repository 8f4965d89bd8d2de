//! The agent's reports.

use crate::Scope;

/// A signature that was made or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignEvent {
    /// The scope whose keys the agent has.
    pub scope: Scope,
    /// The requested key, if it is one of the scope's.
    pub fingerprint: Option<String>,
    /// The purpose of the signature, if it could be read. The client chooses it, so it may be any
    /// text. At most 64 characters, escaped.
    pub namespace: Option<String>,
    /// Whether it was made.
    pub outcome: Result<(), Refusal>,
}

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A message that is empty or longer than 256 KiB.
    #[error("the length of a message is {0}")]
    Length(u32),
    /// A message was begun and not completed in time, or the connection ended within it.
    #[error("an incomplete message")]
    Half,
    /// The request is neither for a list of keys nor for a signature.
    #[error("a request of type {0}")]
    Unsupported(u8),
    /// The request is too short or has trailing bytes.
    #[error("a malformed request")]
    Malformed,
    /// It is not a key of the scope.
    #[error("an unknown key")]
    UnknownKey,
    /// The data is not in the form that `ssh-keygen -Y sign` signs: a login, for example.
    #[error("not a signature of a namespace")]
    NotNamespaced,
    /// The namespace is not allowed.
    #[error("the namespace is not allowed")]
    Namespace,
    /// The flags request an algorithm that the key does not have.
    #[error("flags {0:#x}, which are not valid for this key")]
    Flags(u32),
    /// The key failed.
    #[error("the key failed to sign")]
    Failed,
}
