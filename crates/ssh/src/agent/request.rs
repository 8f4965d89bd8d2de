//! Parses clients' requests, and the structure that `ssh-keygen -Y sign` signs.

use super::data::Reader;
use super::event::Refusal;

/// A client's request.
pub(super) enum Request<'a> {
    /// A list of the keys.
    Identities,
    /// A signature.
    Sign(Sign<'a>),
}

/// A request for a signature.
pub(super) struct Sign<'a> {
    /// The public key.
    pub(super) key: &'a [u8],
    /// The data to sign.
    pub(super) data: &'a [u8],
    /// The flags that select the algorithm of an RSA key.
    pub(super) flags: u32,
}

impl<'a> Request<'a> {
    const IDENTITIES: u8 = 11;
    const SIGN: u8 = 13;

    pub(super) fn parse(message: &'a [u8]) -> Result<Self, Refusal> {
        let mut reader = Reader::new(message);
        let parsed = match reader.byte() {
            Some(Self::IDENTITIES) => Some(Self::Identities),
            Some(Self::SIGN) => Sign::parse(&mut reader).map(Self::Sign),
            Some(other) => return Err(Refusal::Unsupported(other)),
            None => None,
        };
        parsed.filter(|_| reader.end().is_some()).ok_or(Refusal::Malformed)
    }
}

impl<'a> Sign<'a> {
    fn parse(reader: &mut Reader<'a>) -> Option<Self> {
        Some(Self { key: reader.string()?, data: reader.string()?, flags: reader.number()? })
    }
}

/// The namespace of data that `ssh-keygen -Y sign` signs: magic, namespace, an empty reserved
/// field, a hash and its algorithm, and the end. No message that is signed for a login begins with
/// this magic: such a message begins with the length of a session id.
pub(super) fn namespace(data: &[u8]) -> Option<&str> {
    let mut reader = Reader::new(data.strip_prefix(b"SSHSIG")?);
    let namespace = str::from_utf8(reader.string()?).ok().filter(|name| !name.is_empty())?;
    let reserved = reader.string()?;
    let length = match reader.string()? {
        b"sha256" => 32,
        b"sha512" => 64,
        _ => return None,
    };
    let hash = reader.string()?;
    reader.end()?;
    (reserved.is_empty() && hash.len() == length).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::data::put_string;
    use super::*;

    fn structure(namespace: &[u8], reserved: &[u8], algorithm: &[u8], hash: &[u8]) -> Vec<u8> {
        let mut data = b"SSHSIG".to_vec();
        for part in [namespace, reserved, algorithm, hash] {
            put_string(&mut data, part);
        }
        data
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(message in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Request::parse(&message);
            let _ = namespace(&message);
        }

        #[test]
        fn signed_data_is_parsed_completely(
            name in "[a-z@.]{1,8}",
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let hash = [7; 64];
            let mut data = structure(name.as_bytes(), b"", b"sha512", &hash);
            prop_assert_eq!(namespace(&data), Some(name.as_str()));
            for (index, byte) in changes {
                let at = index.index(data.len());
                data[at] = byte;
            }
            if let Some(read) = namespace(&data) {
                let rest = &data[data.len() - 64..];
                prop_assert_eq!(&structure(read.as_bytes(), b"", b"sha512", rest), &data);
            }
        }
    }
}
