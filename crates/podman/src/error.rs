//! Errors of calls to the engine.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

/// Time limit for the beginning of an answer; bollard's own deadline.
pub(crate) const HEADERS_DEADLINE: Duration = Duration::from_mins(2);

/// A failed call to the engine: the operation, its object, and the cause.
///
/// Every call fails if the engine is unreachable, hangs up, does not answer in time (two minutes;
/// two hours for transferring or building images), reports a failure, or sends an invalid answer.
#[derive(Debug, thiserror::Error)]
#[error("failed to {operation} `{object}`")]
pub struct EngineError {
    operation: &'static str,
    object: String,
    source: Box<Cause>,
}

/// The cause of a failed call. None of these texts contains the value of an environment variable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cause {
    #[error("the engine answered {status}: {message}")]
    Status { status: u16, message: String },
    #[error("the engine cannot be reached; is its service running?")]
    Unreachable(#[source] Box<dyn StdError + Send + Sync>),
    #[error("the engine hung up during the call")]
    HungUp(#[source] Box<dyn StdError + Send + Sync>),
    #[error("the engine did not answer within {0:?}")]
    Deadline(Duration),
    #[error("invalid answer of the engine: {0}")]
    Answer(String),
    #[error("{0}")]
    Refused(String),
    #[error("the other end of the copy failed")]
    Local(#[source] io::Error),
}

impl EngineError {
    pub(crate) fn new(operation: &'static str, object: impl Into<String>, cause: Cause) -> Self {
        Self { operation, object: object.into(), source: Box::new(cause) }
    }

    /// For `map_err`: bollard's error of `operation` on `object`.
    pub(crate) fn call(operation: &'static str, object: &str) -> impl FnOnce(bollard::errors::Error) -> Self {
        move |error| Self::new(operation, object, error.into())
    }

    /// The error of a caller that replaces an engine: the operation, its object, and the cause.
    #[must_use]
    pub fn refused(operation: &'static str, object: &str, problem: impl Into<String>) -> Self {
        Self::new(operation, object, Cause::Refused(problem.into()))
    }

    /// The same for an engine that is unreachable.
    #[must_use]
    pub fn unreachable(operation: &'static str, object: &str) -> Self {
        Self::new(operation, object, Cause::Unreachable("no engine was asked".into()))
    }

    /// A container whose process still exists long after SIGKILL.
    #[must_use]
    pub fn unkillable(container: &str, after: Duration) -> Self {
        Self::new(
            "kill container",
            container,
            Cause::Refused(format!("its process still exists {after:?} after SIGKILL")),
        )
    }

    /// A container whose exit status is unknown to the engine.
    #[must_use]
    pub fn end_unknown(container: &str, state: &str) -> Self {
        Self::new(
            "wait for container",
            container,
            Cause::Refused(format!(
                "how its process ended is not known ({state}): its monitor, the engine's process `conmon`, was killed or failed"
            )),
        )
    }

    /// Whether the object does not exist, which teardown treats as success.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Whether a container was not created because its image does not exist.
    #[must_use]
    pub fn is_image_not_found(&self) -> bool {
        // 404 on podman 5; 500 on podman 4, and where the image is removed meanwhile.
        self.message().is_some_and(|message| message.contains("image not known"))
    }

    /// Whether another object has the name.
    #[must_use]
    pub fn is_name_in_use(&self) -> bool {
        // 409 for a network on podman 5; 500 for a container, and on podman 4 for both.
        self.message().is_some_and(|text| {
            text.contains("already in use")
                || text.contains("already exists")
                || text.contains("name") && text.contains("already used")
        })
    }

    /// Whether the subnet of a network overlaps with one that is in use on the host.
    #[must_use]
    pub fn is_subnet_in_use(&self) -> bool {
        self.message()
            .is_some_and(|text| text.contains("subnet") && text.contains("already used on the host"))
    }

    /// Whether the object is in use in a way that forbids the call, or its name or subnet is taken.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409) || self.is_name_in_use() || self.is_subnet_in_use()
    }

    /// Whether the engine failed on an image that was removed while it read all of them. A retry
    /// succeeds.
    #[must_use]
    pub fn is_image_race(&self) -> bool {
        let (Cause::Status { message, .. } | Cause::Refused(message)) = &*self.source else {
            return false;
        };
        message.contains("layer not known") || message.contains("image not known") && !self.is_not_found()
    }

    /// Whether the engine is unreachable.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(*self.source, Cause::Unreachable(_) | Cause::HungUp(_))
    }

    /// Whether the engine did not answer in time.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(*self.source, Cause::Deadline(_))
    }

    /// The engine's message, if it reported a failure.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match &*self.source {
            Cause::Status { message, .. } => Some(message),
            _ => None,
        }
    }

    /// The HTTP status of a reported failure.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match *self.source {
            Cause::Status { status, .. } => Some(status),
            _ => None,
        }
    }

    /// The same error with the texts in `secrets` redacted in the engine's message.
    #[must_use]
    pub fn without<'a>(mut self, secrets: impl IntoIterator<Item = &'a String>) -> Self {
        if let Cause::Status { message, .. } | Cause::Answer(message) | Cause::Refused(message) =
            &mut *self.source
        {
            // Shorter values are not secret, and redacting them would make the message unreadable.
            for secret in secrets.into_iter().filter(|secret| secret.len() >= 4) {
                *message = message.replace(secret.as_str(), "[…]");
            }
        }
        self
    }
}

impl From<bollard::errors::Error> for Cause {
    fn from(error: bollard::errors::Error) -> Self {
        use bollard::errors::Error;
        match error {
            Error::DockerResponseServerError { status_code, message } => {
                Self::Status { status: status_code, message: printable(&message) }
            }
            Error::DockerStreamError { error } => Self::Refused(printable(&error)),
            Error::RequestTimeoutError => Self::Deadline(HEADERS_DEADLINE),
            Error::SocketNotFoundError(path) => Self::Unreachable(format!("no socket at {path}").into()),
            // Their texts quote the document, which may contain environment variables.
            Error::JsonDataError { column, .. } => {
                Self::Answer(format!("unexpected JSON at column {column}"))
            }
            Error::JsonSerdeError { err } => Self::Answer(json_place(&err)),
            Error::IOError { err } => Self::HungUp(Box::new(err)),
            Error::HyperResponseError { err } => Self::HungUp(Box::new(err)),
            Error::HyperLegacyError { err } if err.is_connect() => Self::Unreachable(Box::new(err)),
            Error::HyperLegacyError { err } => Self::HungUp(Box::new(err)),
            other => Self::Answer(printable(&other.to_string())),
        }
    }
}

/// The position of an error in a JSON document, without quoting it.
pub(crate) fn json_place(error: &serde_json::Error) -> String {
    format!(
        "unexpected JSON at line {} column {} ({:?} error)",
        error.line(),
        error.column(),
        error.classify()
    )
}

/// Escapes a message of the engine, which may quote a container or an image.
pub(crate) fn printable(text: &str) -> String {
    const LONGEST: usize = 2000;
    text.trim()
        .chars()
        .take(LONGEST)
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, message: &str) -> EngineError {
        EngineError::new("create network", "n", Cause::Status { status, message: message.to_owned() })
    }

    #[test]
    fn errors_of_both_versions_are_distinguished() {
        let name4 = status(500, "network name n already used: network already exists");
        let name5 = status(409, "network name n already used: network already exists");
        let subnet = status(500, "subnet 10.0.0.0/28 is already used on the host or by another config");
        let container =
            status(500, "creating container storage: the container name \"x\" is already in use by 0f");
        let gone = status(404, "unable to find network with name or ID n: network not found");
        let other = status(500, "disk full");
        for (error, name, in_subnet, not_found) in [
            (&name4, true, false, false),
            (&name5, true, false, false),
            (&subnet, false, true, false),
            (&container, true, false, false),
            (&gone, false, false, true),
            (&other, false, false, false),
        ] {
            assert_eq!(error.is_name_in_use(), name, "{error:?}");
            assert_eq!(error.is_subnet_in_use(), in_subnet, "{error:?}");
            assert_eq!(error.is_conflict(), name || in_subnet, "{error:?}");
            assert_eq!(error.is_not_found(), not_found, "{error:?}");
            assert!(!error.is_unreachable());
        }
    }

    #[test]
    fn missing_image_of_a_container_is_recognised_for_both_versions() {
        let (name4, name5) = ("0f: image not known", "no such image: 0f: image not known");
        assert!(status(500, name4).is_image_not_found() && status(404, name5).is_image_not_found());
        assert!(!status(404, "network not found").is_image_not_found());
    }

    #[test]
    fn image_race_is_recognised() {
        let status = |status, message: &str| Cause::Status { status, message: message.to_owned() };
        for (cause, expected) in [
            (status(500, "reading image \"1\": locating image with ID \"1\": image not known"), true),
            (
                Cause::Refused(
                    "checking if cached image exists: getting top layer info: layer not known".to_owned(),
                ),
                true,
            ),
            (status(404, "no such image: image not known"), false),
            (status(500, "disk full"), false),
            (Cause::Answer("image not known".to_owned()), false),
        ] {
            let error = EngineError::new("list images with", "x", cause);
            assert_eq!(error.is_image_race(), expected, "{error:?}");
        }
    }

    #[test]
    fn message_has_no_secrets_and_control_characters() {
        let error =
            status(500, &printable("bad env TOKEN=hunter2\n\u{1b}[31m")).without([&"hunter2".to_owned()]);
        assert_eq!(error.message(), Some("bad env TOKEN=[…]\\n\\u{1b}[31m"));
        let secret = serde_json::from_str::<Vec<u8>>("[\"hunter2\"]").unwrap_err();
        assert!(secret.to_string().contains("hunter2"), "the reason for json_place");
        assert!(!json_place(&secret).contains("hunter2"));
    }
}
