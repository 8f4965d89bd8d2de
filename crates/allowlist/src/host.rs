//! Host names in canonical form.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;

use idna::uts46::AsciiDenyList;
use idna::uts46::DnsLength;
use idna::uts46::Hyphens;
use idna::uts46::Uts46;

/// The longest host name in characters, without a trailing dot.
pub(crate) const NAME_LIMIT: usize = 253;
/// The longest label in characters.
pub(crate) const LABEL_LIMIT: usize = 63;
/// Names of the machine itself, besides all below `.localhost`.
pub(crate) const LOOPBACK: [&str; 8] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
    "ip6-localhost",
    "ip6-loopback",
];

/// A host name: lower case, without a trailing dot, in A-label form; or a canonical dotted IPv4
/// address.
///
/// ```
/// use allowlist::HostName;
///
/// assert_eq!(HostName::from_wire(b"API.GitHub.com.")?.as_str(), "api.github.com");
/// assert_eq!(HostName::from_user("Bücher.example")?.as_str(), "xn--bcher-kva.example");
/// assert!(HostName::from_wire(b"2130706433").is_err());
/// # Ok::<(), allowlist::InvalidHost>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName {
    name: Box<str>,
    address: Option<Ipv4Addr>,
}

/// The reason why a text is not a host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHost {
    /// Nothing, or a lone dot.
    #[error("the host is empty")]
    Empty,
    /// A byte that is not a letter, digit, `-`, `_` or `.`.
    #[error("the host contains {}, which is not valid in a host name", Shown(*.0))]
    Character(u8),
    /// Two dots in a row, or a dot at the beginning.
    #[error("the host has an empty label")]
    EmptyLabel,
    /// More than 253 characters, or more than 63 in one label.
    #[error("the host is longer than DNS allows")]
    TooLong,
    /// The last label is a number in some notation, and the whole is not four decimal numbers.
    #[error("the host is a number, but not a canonical IPv4 address")]
    Number,
    /// Not convertible by UTS 46.
    #[error("the host is not a valid internationalized name")]
    International,
}

/// A byte in printable form.
struct Shown(u8);

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b' ' => formatter.write_str("a space"),
            0x21..=0x7e => write!(formatter, "`{}`", char::from(self.0)),
            other => write!(formatter, "the byte 0x{other:02x}"),
        }
    }
}

impl HostName {
    /// Reads a host as it appears in an SNI, a Host header or `:authority`, without a port.
    ///
    /// # Errors
    ///
    /// Anything but a plain host name, including non-ASCII bytes, brackets and numbers that are not
    /// a canonical IPv4 address.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, InvalidHost> {
        let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
        if bytes.is_empty() {
            return Err(InvalidHost::Empty);
        }
        if let Some(other) = bytes.iter().find(|byte| !is_host_byte(**byte)) {
            return Err(InvalidHost::Character(*other));
        }
        let name: String = bytes.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect();
        if name.split('.').any(str::is_empty) {
            return Err(InvalidHost::EmptyLabel);
        }
        if name.len() > NAME_LIMIT || name.split('.').any(|label| label.len() > LABEL_LIMIT) {
            return Err(InvalidHost::TooLong);
        }
        let address = name.parse().ok();
        if address.is_none() && name.rsplit('.').next().is_some_and(is_number) {
            return Err(InvalidHost::Number);
        }
        Ok(Self { name: name.into(), address })
    }

    /// Reads a host that a user typed: like [`HostName::from_wire`], but labels may be in any
    /// script (UTS 46, non-transitional).
    ///
    /// # Errors
    ///
    /// Like [`HostName::from_wire`], and names that UTS 46 refuses.
    pub fn from_user(text: &str) -> Result<Self, InvalidHost> {
        if text.is_ascii() {
            return Self::from_wire(text.as_bytes());
        }
        let host = Self::from_wire(to_ascii(text)?.as_bytes())?;
        // Digits of other scripts would convert to an address, in a form that no client sends.
        if host.address.is_some() { Err(InvalidHost::Number) } else { Ok(host) }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Whether the name means the client's own machine, regardless of name servers.
    ///
    /// That is `localhost` and all below it (RFC 6761, section 6.3: never to be looked up), and the
    /// names that distributions give the loopback interface in `/etc/hosts`. Other special names
    /// are left to the address that they lead to: `.local` (RFC 6762) and `home.arpa` (RFC 8375)
    /// are served by name servers of real networks, and lead to private addresses, which are
    /// refused as such.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let name: &str = &self.name;
        name.ends_with(".localhost") || LOOPBACK.contains(&name)
    }

    /// The address, if the host is one.
    #[must_use]
    pub fn is_ipv4(&self) -> Option<Ipv4Addr> {
        self.address
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

/// Converts labels of any script to A-labels; does not check whether ASCII characters are valid in
/// a host.
pub(crate) fn to_ascii(text: &str) -> Result<Cow<'_, str>, InvalidHost> {
    Uts46::new()
        .to_ascii(text.as_bytes(), AsciiDenyList::EMPTY, Hyphens::Allow, DnsLength::Ignore)
        .map_err(|_| InvalidHost::International)
}

pub(crate) fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Whether some resolver would parse a last label as a number: decimal, octal or hexadecimal.
pub(crate) fn is_number(label: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lower = label.to_ascii_lowercase();
    !label.is_empty() && (digits(label) || lower.strip_prefix("0x").is_some_and(hexadecimal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_names_are_recognised() {
        for (name, expected) in [
            ("localhost", true),
            ("LOCALHOST.", true),
            ("a.localhost", true),
            ("a.b.LocalHost.", true),
            ("localhost.localdomain", true),
            ("localhost6.localdomain6", true),
            ("ip6-loopback", true),
            ("notlocalhost", false),
            ("localhost.example", false),
            ("a.ip6-localhost", false),
            ("printer.local", false),
            ("nas.home.arpa", false),
        ] {
            assert_eq!(HostName::from_wire(name.as_bytes()).unwrap().is_loopback(), expected, "{name}");
        }
    }

    #[test]
    fn from_wire_table() {
        use InvalidHost::{Character, Empty, EmptyLabel, Number, TooLong};
        let label = "a".repeat(63);
        let long = format!("{label}.{label}.{label}.{label}");
        let cases: &[(&str, Result<&str, InvalidHost>)] = &[
            ("api.github.com", Ok("api.github.com")),
            ("API.GitHub.COM.", Ok("api.github.com")),
            ("_dmarc.ex_ample.com", Ok("_dmarc.ex_ample.com")),
            ("localhost", Ok("localhost")),
            ("1.2.3.4", Ok("1.2.3.4")),
            ("1.2.3.4.", Ok("1.2.3.4")),
            ("1e100.net", Ok("1e100.net")),
            ("3com.4x", Ok("3com.4x")),
            ("xn--bcher-kva.example", Ok("xn--bcher-kva.example")),
            ("", Err(Empty)),
            (".", Err(Empty)),
            ("..", Err(EmptyLabel)),
            ("a..b", Err(EmptyLabel)),
            (".a", Err(EmptyLabel)),
            ("a..", Err(EmptyLabel)),
            ("2130706433", Err(Number)),
            ("0x7f.1", Err(Number)),
            ("0177.0.0.1", Err(Number)),
            ("127.1", Err(Number)),
            ("999.1.1.1", Err(Number)),
            ("01.2.3.4", Err(Number)),
            ("1.2.3.4.5", Err(Number)),
            ("0", Err(Number)),
            ("0x", Err(Number)),
            ("a.0X7F", Err(Number)),
            ("example.123", Err(Number)),
            ("[::1]", Err(Character(b'['))),
            ("::1", Err(Character(b':'))),
            ("user@host", Err(Character(b'@'))),
            ("a b", Err(Character(b' '))),
            ("a\0b", Err(Character(0))),
            ("bücher.example", Err(Character(0xc3))),
            ("a%2eb", Err(Character(b'%'))),
            ("*.example.com", Err(Character(b'*'))),
            (&long, Err(TooLong)),
            (&format!("{label}a.com"), Err(TooLong)),
        ];
        for (text, expected) in cases {
            let host = HostName::from_wire(text.as_bytes());
            assert_eq!(host.as_ref().map(HostName::as_str), expected.as_ref().map(|s| *s), "{text}");
        }
    }

    #[test]
    fn from_user_table() {
        let cases: &[(&str, Result<&str, InvalidHost>)] = &[
            ("Bücher.Example", Ok("xn--bcher-kva.example")),
            ("straße.de", Ok("xn--strae-oqa.de")),
            ("例え。テスト", Ok("xn--r8jz45g.xn--zckzah")),
            ("GITHUB.com.", Ok("github.com")),
            ("１２７.0.0.1", Err(InvalidHost::Number)),
            ("＊.example.com", Err(InvalidHost::Character(b'*'))),
            ("a\u{fffd}b.example", Err(InvalidHost::International)),
        ];
        for (text, expected) in cases {
            let host = HostName::from_user(text);
            match (&host, expected) {
                (Ok(host), Ok(expected)) => assert_eq!(host.as_str(), *expected, "{text}"),
                (Err(error), Err(expected)) => assert_eq!(error, expected, "{text}"),
                _ => panic!("{text}: {host:?}"),
            }
        }
    }

    #[test]
    fn ipv4_address_is_recognised() {
        assert_eq!(HostName::from_wire(b"10.0.0.1").unwrap().is_ipv4(), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(HostName::from_wire(b"10.0.0.example").unwrap().is_ipv4(), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_get_an_answer_and_names_are_stable(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(host) = HostName::from_wire(&bytes) {
                prop_assert_eq!(HostName::from_wire(host.as_str().as_bytes()), Ok(host));
            }
        }

        #[test]
        fn arbitrary_text_gets_an_answer_and_names_are_stable(text in "\\PC{0,20}(\\.\\PC{0,9})?") {
            if let Ok(host) = HostName::from_user(&text) {
                prop_assert_eq!(HostName::from_wire(host.as_str().as_bytes()), Ok(host));
            }
        }
    }
}
