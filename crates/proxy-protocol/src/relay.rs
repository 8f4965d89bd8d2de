//! How a stream begins that goes over a Unix socket from a proxy to something on the host.
//!
//! The sandbox listens on one socket for each service, in a folder that only it and the proxy see.
//! Whoever connects sends one byte, a [`RelayRequest`], and gets one byte, a [`RelayAnswer`]; after
//! [`RelayAnswer::Connected`] the stream is the service's.

/// What is asked of the sandbox's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayRequest {
    /// Whether it is there; the stream ends after the answer.
    Probe,
    /// A connection to the service.
    Connect,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayAnswer {
    /// The rest of the stream is the service's.
    Connected,
    /// Nothing listens where the service should be, or it refused.
    Refused,
    /// The service did not answer in time.
    Timeout,
    /// The sandbox may not connect to it, or has no room for another stream.
    Failed,
}

impl RelayRequest {
    /// The byte that says so.
    #[must_use]
    pub fn as_byte(self) -> u8 {
        match self {
            Self::Probe => b'p',
            Self::Connect => b'c',
        }
    }

    /// The request that a byte says.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::Probe, Self::Connect].into_iter().find(|request| request.as_byte() == byte)
    }
}

impl RelayAnswer {
    /// The byte that says so.
    #[must_use]
    pub fn as_byte(self) -> u8 {
        match self {
            Self::Connected => b'+',
            Self::Refused => b'r',
            Self::Timeout => b't',
            Self::Failed => b'f',
        }
    }

    /// The answer that a byte says.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        let all = [Self::Connected, Self::Refused, Self::Timeout, Self::Failed];
        all.into_iter().find(|answer| answer.as_byte() == byte)
    }
}
