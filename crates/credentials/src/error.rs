//! Errors of credentials.

use crate::limits::VALUE_LIMIT;

/// A credential that cannot be masked. It names the credential and the fix; no message ever quotes
/// a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// No environment variable can have this name.
    #[error("`{}` is not a valid name of an environment variable: it must not be empty or contain `=` or NUL", variable.escape_debug())]
    VariableName {
        /// The name, up to a `=` or NUL: a value may follow.
        variable: String,
    },
    /// Two secrets, or two parts of a key, have the same variable.
    #[error("the variable `{}` would get two secrets: give each secret a variable of its own", variable.escape_debug())]
    DuplicateVariable {
        /// The variable.
        variable: String,
    },
    /// Two signing credentials have the same name.
    #[error("duplicate signing credential `{}`: give each its own name", name.escape_debug())]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The credential has no hosts.
    #[error("the credential `{}` has no scopes: name the hosts that get it, such as `scopes: [api.example.com]`", credential.escape_debug())]
    NoScopes {
        /// The variable of a masked secret, the name of a signing credential.
        credential: String,
    },
    /// The credential has no headers.
    #[error("the credential `{}` has no headers: name those that carry it, such as `headers: [Authorization]`", credential.escape_debug())]
    NoHeaders {
        /// The variable of the masked secret.
        credential: String,
    },
    /// The value contains NUL, which an environment variable cannot.
    #[error("the value for `{}` contains NUL, which no variable and no header can hold: check where it comes from", variable.escape_debug())]
    Nul {
        /// The variable.
        variable: String,
    },
    /// The value is too long for a header.
    #[error("the value for `{}` is longer than {VALUE_LIMIT} bytes, which no header can hold: check where it comes from", variable.escape_debug())]
    TooLong {
        /// The variable.
        variable: String,
    },
    /// The value has too few letters and digits for another of its form.
    #[error("the value for `{}` has too few letters and digits to be masked: use a longer one", variable.escape_debug())]
    TooShort {
        /// The variable.
        variable: String,
    },
    /// A new value is empty.
    #[error("the new value for `{}` is empty: check where it comes from", variable.escape_debug())]
    Empty {
        /// The variable.
        variable: String,
    },
    /// A new value is for a variable without a surrogate: its first value was empty, or the
    /// variable does not exist.
    #[error("the variable `{}` has no surrogate to renew: restart the task with a value for it", variable.escape_debug())]
    NoSurrogate {
        /// The variable.
        variable: String,
    },
    /// Only one part of a key is empty.
    #[error("the signing credential `{}` has half a key: the value for `{}` is empty; set both parts or none", name.escape_debug(), variable.escape_debug())]
    HalfKey {
        /// The credential.
        name: String,
        /// The variable of the empty part.
        variable: String,
    },
    /// No header has such a name, or it must not carry a credential.
    #[error("`{}` is not a valid pattern of a header's name: {fault}", pattern.escape_debug())]
    HeaderPattern {
        /// The pattern.
        pattern: String,
        /// The problem.
        fault: &'static str,
    },
    /// There is no such preset.
    #[error("unknown preset `{}`; expected one of {}", name.escape_debug(), crate::preset::names())]
    UnknownPreset {
        /// The requested name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_credential_and_fix_on_one_line() {
        let variable = || "A\nB".to_owned();
        for error in [
            SecretError::VariableName { variable: variable() },
            SecretError::DuplicateVariable { variable: variable() },
            SecretError::DuplicateName { name: variable() },
            SecretError::NoScopes { credential: variable() },
            SecretError::NoHeaders { credential: variable() },
            SecretError::Nul { variable: variable() },
            SecretError::TooLong { variable: variable() },
            SecretError::TooShort { variable: variable() },
            SecretError::Empty { variable: variable() },
            SecretError::NoSurrogate { variable: variable() },
            SecretError::HalfKey { name: "AWS".to_owned(), variable: variable() },
            SecretError::HeaderPattern { pattern: variable(), fault: "too long" },
            SecretError::UnknownPreset { name: variable() },
        ] {
            let message = error.to_string();
            assert!(
                message.contains(r"`A\nB`") && message.contains([':', ';']) && !message.contains('\n'),
                "{message}"
            );
        }
    }
}
