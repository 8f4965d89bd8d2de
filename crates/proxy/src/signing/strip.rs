//! Removal of foreign signatures from requests.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::claim::{Carrier, Claim};
use super::target::Target;
use super::token::TOKEN;
use crate::fields::only;

/// The query parameters of a signature, old and new.
const PARAMETERS: [&str; 9] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-region-set",
    "x-amz-signature",
    "x-amz-signedheaders",
    "awsaccesskeyid",
    "signature",
];

/// The headers or parameters that carry a session token: of a temporary key, and of a session of S3
/// Express.
const TOKENS: [&str; 2] = [TOKEN, "x-amz-s3session-token"];

/// Whether the parameters of `target` include a session token.
pub(crate) fn has_token(target: &str) -> bool {
    let target = Target::new(target);
    TOKENS.iter().any(|name| target.has(name))
}

/// Returns the headers and the target of a request without its signature and session token. Without
/// a claim, only the token is removed.
pub(crate) fn without_signature(
    claim: Option<&Claim>,
    headers: &HeaderMap,
    target: &str,
) -> (HeaderMap, String) {
    let mut target = Target::new(target);
    let carrier = claim.map(Claim::carrier);
    if carrier == Some(Carrier::Query) {
        for name in PARAMETERS {
            target.remove(name);
        }
    }
    for name in TOKENS {
        target.remove(name);
    }
    let left = only(headers, |name| {
        let signs = *name == AUTHORIZATION && carrier == Some(Carrier::Header);
        !signs && !TOKENS.contains(&name.as_str())
    });
    (left, target.to_string())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::signing::claim;

    #[test]
    fn stripped_signature_leaves_no_trace() {
        let header = "AWS4-HMAC-SHA256 Credential=AKID/20150830/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=aa";
        let table = [
            (Some(header), "/k?a=%2f&b", "/k?a=%2f&b"),
            (Some("AWS AKID:c2ln"), "/k?x-amz-security-token=t", "/k"),
            (None, "/k?a=+&AWSAccessKeyId=AKID&Signature=s&Expires=1", "/k?a=+&Expires=1"),
            (
                None,
                "/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20150830%2Fr%2Fs3%2Faws4_request&a=1\
                 &X-Amz-Date=20150830T123600Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=aa\
                 &X-Amz-Security-Token=t",
                "/k?a=1",
            ),
        ];
        for (authorization, before, after) in table {
            let mut headers = HeaderMap::new();
            headers.insert("x-amz-date", HeaderValue::from_static("20150830T123600Z"));
            headers.insert("x-amz-security-token", HeaderValue::from_static("token"));
            headers.insert("x-amz-s3session-token", HeaderValue::from_static("token"));
            if let Some(value) = authorization {
                headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            }
            let found = claim(&headers, before).unwrap().unwrap();
            let (headers, target) = without_signature(Some(&found), &headers, before);
            assert_eq!(target, after);
            assert_eq!(headers.len(), 1, "{before}");
            assert_eq!(claim(&headers, &target), Ok(None));
        }
    }
    #[test]
    fn token_alone_is_found_and_removed() {
        for (before, after) in [
            ("/k?X-Amz-Security-Token=t&a=%2f", "/k?a=%2f"),
            ("/k?a=1&x%2damz%2ds3session%2dtoken=t", "/k?a=1"),
        ] {
            assert!(has_token(before), "{before}");
            let mut headers = HeaderMap::new();
            headers.insert("x-amz-security-token", HeaderValue::from_static("token"));
            headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer token"));
            let (headers, target) = without_signature(None, &headers, before);
            assert_eq!(target, after);
            assert!(headers.len() == 1 && headers.contains_key(AUTHORIZATION), "{headers:?}");
        }
        for target in ["/", "/k?token=t", "/x-amz-security-token=t", "/k?X-Amz-Security-Tokens=t"] {
            assert!(!has_token(target), "{target}");
        }
    }
}
