//! Failures of upstreams.
//!
//! Invariant: no text of a failure contains an upstream's own words. They could be anything that it
//! was ever sent, including a credential, and the text goes to the network log as it is.

use std::error::Error;

/// The kind of failure, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The name has no address.
    Dns,
    /// No address accepted the connection.
    Connect,
    /// TLS failed, or the certificate is not the host's.
    Tls,
    /// Something took too long.
    Timeout,
    /// The connection broke, or the data received over it is not HTTP.
    Reset,
    /// The guard refuses every address: the decision of the proxy, not an error of the upstream.
    Address,
    /// The same, and one of them is this machine's.
    OwnAddress,
}

impl Failure {
    /// As it appears in headers and pages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Address | Self::OwnAddress => "address",
        }
    }

    /// A sentence for the client, which reveals nothing that the proxy knows about its environment.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Dns => "its name could not be resolved: check the spelling, or try again later",
            Self::Connect => "it does not accept connections",
            Self::Tls => {
                "it did not prove with a valid certificate that it is this host; where a company signs \
                 certificates itself, `upstream.extra_roots` in .sandbox/sandbox.yaml names its authority"
            }
            Self::Timeout => "it did not answer in time",
            Self::Reset => "the connection broke, or its answer was not HTTP",
            Self::Address | Self::OwnAddress => "its address is private or reserved",
        }
    }
}

/// Texts that precede words of the upstream in the messages of other crates: in h2's, why it ends a
/// connection; in rustls', which names its certificate is for.
const BEFORE_ITS_WORDS: [&str; 2] = [" (b\"", "; certificate is"];

/// A failure, in the words of the log.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct UpstreamError {
    kind: Failure,
    text: String,
}

impl UpstreamError {
    /// A failure with the whole chain of its causes.
    pub(crate) fn new(kind: Failure, cause: &(dyn Error + 'static)) -> Self {
        let mut texts: Vec<String> = Vec::new();
        let mut next = Some(cause);
        while let Some(cause) = next {
            let text = without_number(without_its_words(cause.to_string()));
            // Wrappers repeat the text that they wrap.
            if !texts.iter().any(|known| known.contains(&text)) {
                texts.push(text);
            }
            next = cause.source();
        }
        Self::of_text(kind, &texts.join(": "))
    }

    /// A failure in our own words.
    pub(crate) fn of_text(kind: Failure, what: &str) -> Self {
        let begin = match kind {
            Failure::Dns | Failure::Connect => "Connection failed",
            Failure::Tls => "TLS",
            Failure::Timeout => "Timeout",
            Failure::Reset => "Reset",
            Failure::Address | Failure::OwnAddress => "Address refused",
        };
        Self { kind, text: format!("{begin}: {what}") }
    }

    /// The kind of failure.
    pub(crate) fn kind(&self) -> Failure {
        self.kind
    }
}

/// The text up to where the upstream's own words begin.
fn without_its_words(mut text: String) -> String {
    for mark in BEFORE_ITS_WORDS {
        if let Some(at) = text.find(mark) {
            text.truncate(at);
        }
    }
    text
}

/// The message of the operating system, without its error number.
fn without_number(mut text: String) -> String {
    if let Some(at) = text.rfind(" (os error ").filter(|_| text.ends_with(')')) {
        text.truncate(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn words_of_an_upstream_are_not_reported() {
        let reset = Error::other(
            "connection error received: not a result of an error (b\"x (os error 1) (b\\\"bad token ghp_Real\\\")\")",
        );
        let tls = |names: &str| {
            let text = format!("certificate not valid for name \"a.example\"; certificate is {names}");
            UpstreamError::new(Failure::Tls, &Error::other(text)).to_string()
        };
        assert_eq!(
            UpstreamError::new(Failure::Reset, &Error::other(reset)).to_string(),
            "Reset: connection error received: not a result of an error"
        );
        for names in [
            "only valid for DnsName(\"ghp-real.example\")",
            "only valid for DnsName(\"b.example\") or DnsName(\"; certificate is\")",
            "not valid for any names (according to its subjectAltName extension)",
        ] {
            assert_eq!(tls(names), "TLS: certificate not valid for name \"a.example\"");
        }
    }

    #[test]
    fn failures_have_the_text_of_the_log() {
        let refused = Error::from_raw_os_error(111);
        let wrapped = Error::other(Error::from_raw_os_error(113));
        let cases: [(Failure, &Error, &str); 4] = [
            (Failure::Connect, &refused, "Connection failed: Connection refused"),
            (Failure::Connect, &wrapped, "Connection failed: No route to host"),
            (
                Failure::Dns,
                &Error::other("Name or service not known"),
                "Connection failed: Name or service not known",
            ),
            (
                Failure::Tls,
                &Error::other("invalid peer certificate: UnknownIssuer"),
                "TLS: invalid peer certificate: UnknownIssuer",
            ),
        ];
        for (kind, cause, text) in cases {
            assert_eq!(UpstreamError::new(kind, cause).to_string(), text);
        }
    }
}
