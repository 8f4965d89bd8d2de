//! The beginning of a stream over a Unix socket from a proxy to a service of the host.
//!
//! The sandbox listens on one socket for each service, in a folder that only it and the proxy can
//! access. A client sends one byte, a [`RelayRequest`], and gets one byte, a [`RelayAnswer`]; after
//! [`RelayAnswer::Connected`] the stream is the service's.

/// A request to the sandbox's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayRequest {
    /// Tests whether the relay exists; the stream ends after the answer.
    Probe,
    /// Requests a connection to the service.
    Connect,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayAnswer {
    /// The rest of the stream is the service's.
    Connected,
    /// Nothing listens at the service's address, or it refused.
    Refused,
    /// The service did not answer in time.
    Timeout,
    /// The sandbox may not connect to it, or has too many streams.
    Failed,
}

impl RelayRequest {
    /// The byte that encodes it.
    #[must_use]
    pub fn as_byte(self) -> u8 {
        match self {
            Self::Probe => b'p',
            Self::Connect => b'c',
        }
    }

    /// The request that a byte encodes.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::Probe, Self::Connect].into_iter().find(|request| request.as_byte() == byte)
    }
}

impl RelayAnswer {
    /// The byte that encodes it.
    #[must_use]
    pub fn as_byte(self) -> u8 {
        match self {
            Self::Connected => b'+',
            Self::Refused => b'r',
            Self::Timeout => b't',
            Self::Failed => b'f',
        }
    }

    /// The answer that a byte encodes.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        let all = [Self::Connected, Self::Refused, Self::Timeout, Self::Failed];
        all.into_iter().find(|answer| answer.as_byte() == byte)
    }
}
