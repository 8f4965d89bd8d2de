//! Presigned URLs: replaces the credential and the signature in the query, and keeps everything
//! else byte for byte.

use super::encoding::encoded;
use super::target::Target;

/// The parameter that holds the signature, which is never signed itself.
pub(super) const SIGNATURE: &str = "x-amz-signature";
const CREDENTIAL: &str = "x-amz-credential";

/// Replaces the key id before the scope with the real one; the scope stays as the client wrote it.
pub(super) fn replace_key_id(target: &mut Target, key_id: &str) {
    target.change(CREDENTIAL, |raw| {
        // The key id ends at the first slash, encoded or not.
        let ends = ["/", "%2F", "%2f"].iter().filter_map(|slash| raw.find(slash));
        let scope = ends.min().and_then(|end| raw.get(end..)).unwrap_or_default();
        format!("{}{scope}", encoded(key_id.as_bytes()))
    });
}

/// Replaces the signature of the client with the new one.
pub(super) fn replace_signature(target: &mut Target, signature: &str) {
    target.change(SIGNATURE, |_| signature.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_id_changes() {
        for (before, after) in [
            ("/?a=%2f&X-Amz-Credential=OLD%2F2015%2fr&b", "/?a=%2f&X-Amz-Credential=NEW%2F2015%2fr&b"),
            ("/?x-amz-credential=O%4cD/2015/r", "/?x-amz-credential=NEW/2015/r"),
            ("/?X%2DAmz-Credential=OLD%2f2015", "/?X%2DAmz-Credential=NEW%2f2015"),
        ] {
            let mut target = Target::new(before);
            replace_key_id(&mut target, "NEW");
            assert_eq!(target.to_string(), after);
        }
    }
}
