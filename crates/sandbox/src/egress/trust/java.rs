//! A CA store for Java, in its own "JKS" format, because Java does not read PEM here.
//!
//! It contains certificates only. The format ends with a digest over a fixed phrase, which Java
//! checks only if it gets the password; the digest protects nothing and is only required by the
//! format.

use sha1::{Digest, Sha1};

const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
/// The tag of an entry that is a trusted certificate.
const TRUSTED: u32 = 2;
/// The password of every Java distribution's CA store.
const PASSWORD: &str = "changeit";
const PHRASE: &[u8] = b"Mighty Aphrodite";

/// The store of `certificates`, each DER. A certificate over 4 GiB cannot be represented and is
/// left out.
pub(super) fn key_store(certificates: &[Vec<u8>]) -> Vec<u8> {
    let entries: Vec<Vec<u8>> = certificates
        .iter()
        .enumerate()
        .filter_map(|(index, der)| entry(&format!("authority-{index}"), der))
        .collect();
    let mut store = Vec::new();
    store.extend(MAGIC.to_be_bytes());
    store.extend(VERSION.to_be_bytes());
    store.extend(u32::try_from(entries.len()).unwrap_or(u32::MAX).to_be_bytes());
    store.extend(entries.concat());
    let digest = digest(&store);
    store.extend(digest);
    store
}

fn entry(alias: &str, der: &[u8]) -> Option<Vec<u8>> {
    let mut entry = Vec::with_capacity(der.len() + 64);
    entry.extend(TRUSTED.to_be_bytes());
    entry.extend(text(alias)?);
    // The time at which it was added has no meaning here.
    entry.extend(0_u64.to_be_bytes());
    entry.extend(text("X.509")?);
    entry.extend(u32::try_from(der.len()).ok()?.to_be_bytes());
    entry.extend(der);
    Some(entry)
}

fn text(ascii: &str) -> Option<Vec<u8>> {
    let mut text = u16::try_from(ascii.len()).ok()?.to_be_bytes().to_vec();
    text.extend(ascii.as_bytes());
    Some(text)
}

fn digest(store: &[u8]) -> [u8; 20] {
    let password = PASSWORD.encode_utf16().flat_map(u16::to_be_bytes);
    Sha1::new()
        .chain_update(password.collect::<Vec<u8>>())
        .chain_update(PHRASE)
        .chain_update(store)
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_that_of_the_format() {
        let store = key_store(&[vec![0xaa, 0xbb]]);
        let mut expected = vec![0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 1];
        expected.extend([0, 0, 0, 2, 0, 11]);
        expected.extend(b"authority-0");
        expected.extend([0; 8]);
        expected.extend([0, 5]);
        expected.extend(b"X.509");
        expected.extend([0, 0, 0, 2, 0xaa, 0xbb]);
        let (body, digest) = store.split_at(store.len() - 20);
        assert_eq!(body, expected);
        assert_eq!(digest, super::digest(&expected));
    }

    /// Created with `keytool -importcert -storetype JKS -storepass changeit` from an empty store:
    /// only the digest of the frame.
    #[test]
    fn empty_store_has_the_digest_of_java() {
        let store = key_store(&[]);
        assert_eq!(sandbox_files::hex(store.get(12..).unwrap()), "e2686e45fb43dfa4d992dd41ceb6b21c6330d792");
    }
}
