//! Presigned URLs: the credential and the signature in the query, everything else byte for byte as
//! it was.

use super::encoding::encoded;
use super::target::Target;

/// The parameter that holds the signature, which is never signed itself.
pub(super) const SIGNATURE: &str = "x-amz-signature";
const CREDENTIAL: &str = "x-amz-credential";

/// Puts the real key id before the scope, which stays as the client wrote it.
pub(super) fn replace_key_id(target: &mut Target, key_id: &str) {
    target.change(CREDENTIAL, |raw| {
        // The key id ends at the first slash, encoded or not.
        let ends = ["/", "%2F", "%2f"].iter().filter_map(|slash| raw.find(slash));
        let scope = ends.min().and_then(|end| raw.get(end..)).unwrap_or_default();
        format!("{}{scope}", encoded(key_id.as_bytes()))
    });
}

/// Puts the new signature in the place of the client's.
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
