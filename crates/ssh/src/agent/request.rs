//! What a client asks for, and the structure that `ssh-keygen -Y sign` has signed.

use super::data::Reader;
use super::event::Refusal;

/// What a client may ask for.
pub(super) enum Request<'a> {
    /// Which keys there are.
    Identities,
    /// A signature.
    Sign(Sign<'a>),
}

/// A signature that is asked for.
pub(super) struct Sign<'a> {
    /// The public key.
    pub(super) key: &'a [u8],
    /// What is to be signed.
    pub(super) data: &'a [u8],
    /// Which algorithm an RSA key uses.
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

/// The namespace of what `ssh-keygen -Y sign` has signed: magic, namespace, nothing reserved, a hash and its algorithm, and the end. No message that
/// is signed for a login begins with this magic: there, the length of a session id comes first.
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
        fn what_is_read_is_the_whole_of_what_is_signed(
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
