//! The `Credential` of a signature: the key and its scope.

use super::algorithm::Algorithm;
use super::error::SignError;
use super::timestamp::midnight;

/// The last part of every scope.
pub(super) const TERMINATOR: &str = "aws4_request";

/// The scope of a key: a day, a region (not in SigV4A) and a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scope {
    text: String,
    region: Option<String>,
    service: String,
}

impl Scope {
    /// Reads `KEY/DAY/REGION/SERVICE/aws4_request` (without the region in SigV4A), and returns the
    /// key id and the scope.
    ///
    /// # Errors
    ///
    /// [`SignError::Malformed`] for anything else: the scope is signed as a line, so no part may
    /// contain a line break.
    pub(super) fn of_credential(algorithm: Algorithm, text: &str) -> Result<(String, Self), SignError> {
        const MALFORMED: SignError = SignError::Malformed("the credential has the wrong form");
        let (key_id, scope) = text.split_once('/').ok_or(MALFORMED)?;
        let parts: Vec<&str> = scope.split('/').collect();
        let (day, region, service) = match (algorithm, parts.as_slice()) {
            (Algorithm::V4, &[day, region, service, TERMINATOR]) => (day, Some(region), service),
            (Algorithm::V4a, &[day, service, TERMINATOR]) => (day, None, service),
            _ => return Err(MALFORMED),
        };
        let plain = is_name(key_id) && is_name(service) && region.is_none_or(is_region);
        if !plain || midnight(day).is_none() {
            return Err(MALFORMED);
        }
        let scope =
            Self { text: scope.to_owned(), region: region.map(str::to_owned), service: service.to_owned() };
        Ok((key_id.to_owned(), scope))
    }

    /// The text that is signed, without the key id.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The day, as the client wrote it.
    pub(super) fn day(&self) -> &str {
        self.text.split('/').next().unwrap_or_default()
    }

    /// The region; SigV4A names its regions elsewhere.
    pub(super) fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// The service, such as `s3`.
    pub(super) fn service(&self) -> &str {
        &self.service
    }
}

/// Whether `text` may name a region, or several: it is logged unescaped. Services without regions
/// leave it empty.
pub(super) fn is_region(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.*,".contains(&byte))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_is_read_in_its_exact_form_only() {
        let table = [
            (Algorithm::V4, "AKID/20150830/us-east-1/s3/aws4_request", true),
            (Algorithm::V4, "AKID/20150830//s3/aws4_request", true),
            (Algorithm::V4a, "AKID/20150830/s3/aws4_request", true),
            (Algorithm::V4a, "AKID/20150830/us-east-1/s3/aws4_request", false),
            (Algorithm::V4, "AKID/20150830/s3/aws4_request", false),
            (Algorithm::V4, "AK/ID/20150830/us-east-1/s3/aws4_request", false),
            (Algorithm::V4, "/20150830/us-east-1/s3/aws4_request", false),
            (Algorithm::V4, "AKID/20151330/us-east-1/s3/aws4_request", false),
            (Algorithm::V4, "AKID/20150830/us-east-1/s3/aws4_request/", false),
            (Algorithm::V4, "AKID/20150830/us-east-1/s3/aws5_request", false),
            (Algorithm::V4, "AKID/20150830/us\neast/s3/aws4_request", false),
            (Algorithm::V4, "AKID/20150830/us]east/s3/aws4_request", false),
            (Algorithm::V4, "AKID/20150830/us-east-1/s\n3/aws4_request", false),
            (Algorithm::V4, "AK ID/20150830/us-east-1/s3/aws4_request", false),
            (Algorithm::V4, "", false),
        ];
        for (algorithm, text, fits) in table {
            assert_eq!(Scope::of_credential(algorithm, text).is_ok(), fits, "{text:?}");
        }
        let (key, scope) =
            Scope::of_credential(Algorithm::V4, "AKID/20150830/us-east-1/s3/aws4_request").unwrap();
        assert_eq!(key, "AKID");
        assert_eq!(scope.text(), "20150830/us-east-1/s3/aws4_request");
        assert_eq!((scope.region(), scope.service()), (Some("us-east-1"), "s3"));
    }
}
