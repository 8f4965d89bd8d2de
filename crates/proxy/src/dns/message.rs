//! The DNS wire format, as far as a responder and a stub resolver need it. No read goes past the
//! message, no loop runs forever.

use std::fmt;

/// The length of the fixed header in bytes.
pub(super) const HEADER_BYTES: usize = 12;
/// The maximum length of a name on the wire in bytes, including the root's zero (RFC 1035).
const NAME_BYTES: usize = 255;

/// The class of the Internet.
pub(super) const CLASS_IN: u16 = 1;
/// An IPv4 address.
pub(super) const TYPE_A: u16 = 1;
/// The canonical name of an alias.
pub(super) const TYPE_CNAME: u16 = 5;
/// An IPv6 address.
pub(super) const TYPE_AAAA: u16 = 28;
/// The pseudo-record of EDNS.
pub(super) const TYPE_OPT: u16 = 41;

/// The fixed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Chosen by the client, repeated by the server.
    pub(super) id: u16,
    /// The second word, bits as on the wire.
    pub(super) flags: u16,
    /// The number of questions.
    pub(super) questions: u16,
    /// The number of records in the answer section.
    pub(super) answers: u16,
    /// The number of records in the authority section.
    pub(super) authorities: u16,
    /// The number of records in the additional section.
    pub(super) additionals: u16,
}

impl Header {
    /// Set in every response.
    pub(super) const RESPONSE: u16 = 0x8000;
    /// The answer did not fit.
    pub(super) const TRUNCATED: u16 = 0x0200;
    /// The client wants a full answer, not a referral.
    pub(super) const RECURSION_DESIRED: u16 = 0x0100;
    /// The server gives full answers.
    pub(super) const RECURSION_AVAILABLE: u16 = 0x0080;
    /// The bits of the opcode.
    pub(super) const OPCODE: u16 = 0x7800;
    /// The bits of the response code.
    pub(super) const RESPONSE_CODE: u16 = 0x000f;

    /// Appends the header to `message`.
    pub(super) fn write(self, message: &mut Vec<u8>) {
        let words = [self.id, self.flags, self.questions, self.answers, self.authorities, self.additionals];
        message.extend(words.into_iter().flat_map(u16::to_be_bytes));
    }
}

/// A name as a sequence of labels, each with its length before it, the root's zero at the end.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Name(Vec<u8>);

impl Name {
    /// The name of `host`, whose labels consist of letters, digits, hyphens and underscores.
    pub(super) fn from_host(host: &str) -> Option<Self> {
        let mut wire = Vec::with_capacity(host.len() + 2);
        for label in host.split('.') {
            let fits = (1..=63).contains(&label.len());
            if !fits || !label.bytes().all(is_host_byte) {
                return None;
            }
            wire.push(u8::try_from(label.len()).ok()?);
            wire.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
        }
        wire.push(0);
        (wire.len() <= NAME_BYTES).then_some(Self(wire))
    }

    /// Whether it is a name that [`Self::from_host`] could have returned.
    pub(super) fn is_host(&self) -> bool {
        !self.is_root() && self.labels().all(|label| label.iter().copied().all(is_host_byte))
    }

    /// Whether it is the name without labels.
    pub(super) fn is_root(&self) -> bool {
        self.0 == [0]
    }

    /// Whether both are the same name, ignoring case. (A length is at most 63, which is not a
    /// letter.)
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }

    /// Its bytes on the wire.
    pub(super) fn as_wire(&self) -> &[u8] {
        &self.0
    }

    fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first()?;
            let (label, next) = after.split_at_checked(usize::from(*length))?;
            rest = next;
            (!label.is_empty()).then_some(label)
        })
    }
}

/// Labels joined by dots, without the last dot; the root is `.`. A dot or backslash inside a label
/// is escaped with a backslash, bytes that are not UTF-8 become replacement characters; nothing
/// else is escaped.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for (index, label) in self.labels().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            let text = String::from_utf8_lossy(label).replace('\\', r"\\").replace('.', r"\.");
            f.write_str(&text)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({:?})", self.to_string())
    }
}

/// A record. The place of its data in the message is kept as well, because names in the data may
/// point elsewhere.
#[derive(Debug, Clone)]
pub(super) struct ResourceRecord<'a> {
    pub(super) owner: Name,
    pub(super) kind: u16,
    pub(super) class: u16,
    pub(super) ttl: u32,
    pub(super) data: &'a [u8],
    /// Where `data` begins in the message.
    pub(super) data_at: usize,
}

/// Reads a message from its beginning. Every method returns `None` if the message is cut short or
/// malformed.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    message: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `message`.
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self::at(message, 0)
    }

    /// Starts at `position` of `message`.
    pub(super) fn at(message: &'a [u8], position: usize) -> Self {
        Self { message, position }
    }

    /// The fixed header.
    pub(super) fn header(&mut self) -> Option<Header> {
        Some(Header {
            id: self.word()?,
            flags: self.word()?,
            questions: self.word()?,
            answers: self.word()?,
            authorities: self.word()?,
            additionals: self.word()?,
        })
    }

    /// A name written in full: without pointers.
    pub(super) fn plain_name(&mut self) -> Option<Name> {
        let mut wire = Vec::new();
        loop {
            let length = self.byte()?;
            // The two high bits mark a pointer, or label types that were never adopted.
            if length > 63 {
                return None;
            }
            wire.push(length);
            wire.extend_from_slice(self.bytes(usize::from(length))?);
            if wire.len() > NAME_BYTES {
                return None;
            }
            if length == 0 {
                return Some(Name(wire));
            }
        }
    }

    /// A name that may end in a pointer. Each pointer must point before the labels that it ends, so
    /// that none can loop.
    pub(super) fn name(&mut self) -> Option<Name> {
        let mut wire = Vec::new();
        let mut bound = self.position;
        let mut cursor = self.clone();
        let mut after_first_pointer = None;
        loop {
            let length = cursor.byte()?;
            match length {
                0 => break,
                1..=63 => {
                    wire.push(length);
                    wire.extend_from_slice(cursor.bytes(usize::from(length))?);
                    if wire.len() >= NAME_BYTES {
                        return None;
                    }
                }
                0xc0.. => {
                    let target = usize::from(u16::from_be_bytes([length & 0x3f, cursor.byte()?]));
                    after_first_pointer.get_or_insert(cursor.position);
                    if target >= bound {
                        return None;
                    }
                    bound = target;
                    cursor = Self::at(self.message, target);
                }
                64..=0xbf => return None,
            }
        }
        wire.push(0);
        self.position = after_first_pointer.unwrap_or(cursor.position);
        Some(Name(wire))
    }

    /// A whole record.
    pub(super) fn record(&mut self) -> Option<ResourceRecord<'a>> {
        let owner = self.name()?;
        let kind = self.word()?;
        let class = self.word()?;
        let ttl = u32::from_be_bytes(self.bytes(4)?.try_into().ok()?);
        let length = self.word()?;
        let data_at = self.position;
        let data = self.bytes(usize::from(length))?;
        Some(ResourceRecord { owner, kind, class, ttl, data, data_at })
    }

    /// Skips a record without reading its data; returns its type, and whether the root owns it.
    pub(super) fn skip_record(&mut self) -> Option<(u16, bool)> {
        let mut is_root = true;
        loop {
            match self.byte()? {
                0 => break,
                length @ 1..=63 => {
                    self.bytes(usize::from(length))?;
                }
                0xc0.. => {
                    self.byte()?;
                    is_root = false;
                    break;
                }
                64..=0xbf => return None,
            }
            is_root = false;
        }
        let kind = self.word()?;
        self.bytes(6)?;
        let length = self.word()?;
        self.bytes(usize::from(length))?;
        Some((kind, is_root))
    }

    /// Two bytes, the high one first.
    pub(super) fn word(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes(2)?.try_into().ok()?))
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.message.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let bytes = self.message.get(self.position..self.position.checked_add(length)?)?;
        self.position += length;
        Some(bytes)
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// The name of a type, or `TYPE` and its number if it has no name here.
pub(super) fn type_name(kind: u16) -> String {
    let known = match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        10 => "NULL",
        12 => "PTR",
        13 => "HINFO",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        29 => "LOC",
        33 => "SRV",
        35 => "NAPTR",
        37 => "CERT",
        39 => "DNAME",
        41 => "OPT",
        43 => "DS",
        44 => "SSHFP",
        46 => "RRSIG",
        47 => "NSEC",
        48 => "DNSKEY",
        50 => "NSEC3",
        52 => "TLSA",
        64 => "SVCB",
        65 => "HTTPS",
        99 => "SPF",
        251 => "IXFR",
        252 => "AXFR",
        255 => "ANY",
        256 => "URI",
        257 => "CAA",
        other => return format!("TYPE{other}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_round_trip() {
        let long_label = "a".repeat(64);
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        let too_long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(62));
        let cases = [
            ("example.com", true),
            ("_dmarc.Example.COM", true),
            ("localhost", true),
            (longest.as_str(), true),
            (too_long.as_str(), false),
            (long_label.as_str(), false),
            ("", false),
            ("a..b", false),
            ("a.", false),
            ("a b", false),
            ("é.example", false),
        ];
        for (host, good) in cases {
            let name = Name::from_host(host);
            assert_eq!(
                name.as_ref().map(ToString::to_string),
                good.then(|| host.to_ascii_lowercase()),
                "{host}"
            );
            assert!(name.is_none_or(|name| name.is_host() && name.as_wire().len() <= NAME_BYTES), "{host}");
        }
    }

    #[test]
    fn dots_and_backslashes_in_labels_are_escaped() {
        let cases: [(&[u8], &str); 5] = [
            (b"\x03a.b\x01c\0", r"a\.b.c"),
            (b"\x01a\x03b\\c\0", r"a.b\\c"),
            (b"\x02\xff\n\x01a\0", "\u{fffd}\n.a"),
            (b"\x04a@ b\0", "a@ b"),
            (b"\0", "."),
        ];
        for (wire, text) in cases {
            let name = Reader::new(wire).plain_name().unwrap();
            assert_eq!(name.to_string(), text);
            assert!(!name.is_host(), "{text:?}");
        }
    }

    #[test]
    fn only_backward_pointers_are_followed() {
        // At 0: "com"; at 5: "a" + pointer to 0; at 9: pointer to itself; at 11: pointer forward;
        // at 13: pointer to 15 and back.
        let message = b"\x03com\0\x01a\xc0\x00\xc0\x09\xc0\x0d\xc0\x0f\xc0\x0d";
        let cases = [(0, Some("com")), (5, Some("a.com")), (9, None), (11, None), (13, None), (15, None)];
        for (position, text) in cases {
            let name = Reader::at(message, position).name().map(|name| name.to_string());
            assert_eq!(name.as_deref(), text, "at {position}");
        }
        assert_eq!(Reader::at(message, 5).plain_name(), None, "a pointer is not a plain name");
        let mut reader = Reader::at(message, 5);
        reader.name().unwrap();
        assert_eq!(reader.position, 9, "reading continues after the pointer");
    }
}
