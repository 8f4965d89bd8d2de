//! A host with an optional port.

use crate::denial::Denial;
use crate::host::HostName;
use crate::host::InvalidHost;
use crate::scheme::Scheme;

/// The content of a Host header, of `:authority` or of an absolute-form target.
///
/// ```
/// use allowlist::{Authority, Reason};
///
/// let authority = Authority::from_wire(b"Example.com.:443")?;
/// assert_eq!((authority.host().as_str(), authority.port()), ("example.com", Some(443)));
/// assert_eq!(Authority::from_wire(b"user@example.com").unwrap_err().reason(), Reason::Identity);
/// # Ok::<(), allowlist::Denial>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    host: HostName,
    port: Option<u16>,
}

impl Authority {
    /// An authority of parts that are already validated.
    #[must_use]
    pub fn new(host: HostName, port: Option<u16>) -> Self {
        Self { host, port }
    }

    /// Reads an authority as received.
    ///
    /// # Errors
    ///
    /// A denial with reason `identity` (user information, brackets, an empty port, anything that
    /// [`HostName::from_wire`] refuses) or `port` (a port that is written in an unusual way or is
    /// out of range).
    pub fn from_wire(bytes: &[u8]) -> Result<Self, Denial> {
        Self::read(bytes, HostName::from_wire)
    }

    /// Reads an authority that a user typed: the host may be written in any script.
    ///
    /// # Errors
    ///
    /// Like [`Authority::from_wire`].
    pub fn from_user(bytes: &[u8]) -> Result<Self, Denial> {
        Self::read(bytes, |host| match std::str::from_utf8(host) {
            Ok(text) => HostName::from_user(text),
            Err(_) => HostName::from_wire(host),
        })
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &HostName {
        &self.host
    }

    /// The port, if one is named.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The host alone.
    #[must_use]
    pub fn into_host(self) -> HostName {
        self.host
    }

    /// Checks that the port, if one is named, is the only one that `scheme` is served on.
    pub(crate) fn check_port(&self, scheme: Scheme) -> Result<(), Denial> {
        match self.port {
            Some(port) if port != scheme.default_port() => Err(Denial::port()),
            _ => Ok(()),
        }
    }

    fn read(
        bytes: &[u8],
        read_host: impl Fn(&[u8]) -> Result<HostName, InvalidHost>,
    ) -> Result<Self, Denial> {
        if bytes.contains(&b'@') {
            return Err(Denial::identity(
                "the host comes with user information",
                "leave out the part before `@`",
            ));
        }
        if bytes.iter().any(|byte| matches!(byte, b'[' | b']')) {
            return Err(Denial::identity("the host is written in brackets", "ask for the host by its name"));
        }
        let colon = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
        let (host, port) = bytes.split_at(colon);
        let host = read_host(host)?;
        let port = port.strip_prefix(b":").map(read_port).transpose()?;
        Ok(Self { host, port })
    }
}

/// A port in its canonical form: servers may read any other form differently.
fn read_port(digits: &[u8]) -> Result<u16, Denial> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Denial::identity("the part after the host's `:` is not a port", "leave the port out"));
    }
    let port = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    port.filter(|_| digits.first() != Some(&b'0')).ok_or_else(Denial::port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;
    use proptest::prelude::*;

    #[test]
    fn from_wire_table() {
        for (text, expected) in [
            ("example.com", Ok(("example.com", None))),
            ("EXAMPLE.com.:80", Ok(("example.com", Some(80)))),
            ("10.0.0.1:8080", Ok(("10.0.0.1", Some(8080)))),
            ("a:65535", Ok(("a", Some(65535)))),
            ("", Err(Reason::Identity)),
            (":80", Err(Reason::Identity)),
            ("example.com:", Err(Reason::Identity)),
            ("example.com:http", Err(Reason::Identity)),
            ("example.com:-1", Err(Reason::Identity)),
            ("example.com:+80", Err(Reason::Identity)),
            ("example.com:80:80", Err(Reason::Identity)),
            ("example.com:080", Err(Reason::Port)),
            ("example.com:0", Err(Reason::Port)),
            ("example.com:65536", Err(Reason::Port)),
            ("example.com:99999999999999999999", Err(Reason::Port)),
            ("user@example.com", Err(Reason::Identity)),
            ("user:pw@example.com:80", Err(Reason::Identity)),
            ("good.com\\@evil.com", Err(Reason::Identity)),
            ("[::1]", Err(Reason::Identity)),
            ("[::1]:80", Err(Reason::Identity)),
            ("::1", Err(Reason::Identity)),
            ("a\0b", Err(Reason::Identity)),
            ("a b", Err(Reason::Identity)),
            ("bücher.example", Err(Reason::Identity)),
            ("example.com, evil.com", Err(Reason::Identity)),
            ("0x7f.1", Err(Reason::Identity)),
        ] {
            let read = Authority::from_wire(text.as_bytes());
            let read = read.as_ref().map(|a| (a.host().as_str(), a.port())).map_err(Denial::reason);
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn host_from_a_user_in_any_script_is_accepted() {
        let authority = Authority::from_user("Bücher.example:443".as_bytes()).unwrap();
        assert_eq!((authority.host().as_str(), authority.port()), ("xn--bcher-kva.example", Some(443)));
        assert_eq!(Authority::from_user(b"b\xfccher.example").unwrap_err().reason(), Reason::Identity);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let wire = Authority::from_wire(&bytes);
            prop_assert!(wire.is_err() || wire == Authority::from_user(&bytes));
        }
    }
}
