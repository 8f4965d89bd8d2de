//! The parts of an `Authorization` header.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::algorithm::Algorithm;
use super::error::SignError;

/// The contents of a header with an AWS scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Authorization<'a> {
    /// A scheme whose signatures can be recomputed.
    Signed { algorithm: Algorithm, credential: &'a str, signed_headers: &'a str },
    /// Another AWS scheme, such as version 2.
    Foreign,
}

/// Reads the `Authorization` header; `None` if it contains no AWS scheme.
///
/// # Errors
///
/// When there is an AWS signature along with something else, twice, in the middle of another
/// scheme, or in a form that cannot be read.
pub(super) fn authorization(headers: &HeaderMap) -> Result<Option<Authorization<'_>>, SignError> {
    let mut found = None;
    let mut lines = 0;
    for value in headers.get_all(AUTHORIZATION) {
        found = found.or(read(value.as_bytes())?);
        lines += 1;
    }
    if lines > 1 && found.is_some() {
        return Err(SignError::Ambiguous("Authorization"));
    }
    Ok(found)
}

const BEHIND_ANOTHER: SignError = SignError::Malformed("another scheme precedes it");

fn read(value: &[u8]) -> Result<Option<Authorization<'_>>, SignError> {
    let value = value.trim_ascii();
    if !starts_with(value, b"AWS") {
        return if mentions_signature(value) { Err(BEHIND_ANOTHER) } else { Ok(None) };
    }
    let text = str::from_utf8(value)
        .ok()
        .filter(|text| text.is_ascii())
        .ok_or(SignError::Malformed("the header is not ASCII"))?;
    let (scheme, parts) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let Some(algorithm) = Algorithm::from_name(scheme) else {
        return if mentions_signature(parts.as_bytes()) {
            Err(BEHIND_ANOTHER)
        } else {
            Ok(Some(Authorization::Foreign))
        };
    };
    signed(algorithm, parts).map(Some)
}

fn signed(algorithm: Algorithm, parts: &str) -> Result<Authorization<'_>, SignError> {
    let (mut credential, mut signed_headers, mut signature) = (None, None, None);
    for part in parts.split([',', ' ', '\t']).filter(|part| !part.is_empty()) {
        let (name, value) =
            part.split_once('=').ok_or(SignError::Malformed("a part of the header is not a pair"))?;
        let (slot, name) = match name.to_ascii_lowercase().as_str() {
            "credential" => (&mut credential, "Credential"),
            "signedheaders" => (&mut signed_headers, "SignedHeaders"),
            "signature" => (&mut signature, "Signature"),
            _ => return Err(SignError::Malformed("the header has an unknown part")),
        };
        if slot.replace(value).is_some() {
            return Err(SignError::Ambiguous(name));
        }
    }
    match (credential, signed_headers, signature) {
        (Some(credential), Some(signed_headers), Some(_)) => {
            Ok(Authorization::Signed { algorithm, credential, signed_headers })
        }
        _ => Err(SignError::Malformed("a part of the header is missing")),
    }
}

fn starts_with(value: &[u8], prefix: &[u8]) -> bool {
    value.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Whether a signature occurs anywhere in `value`, where a reader that splits the header as a list
/// would find it.
fn mentions_signature(value: &[u8]) -> bool {
    [b"AWS4-HMAC-".as_slice(), b"AWS4-ECDSA-"]
        .iter()
        .any(|scheme| value.windows(scheme.len()).any(|window| window.eq_ignore_ascii_case(scheme)))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read_lines(lines: &[&str]) -> Result<Option<(String, String)>, SignError> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        Ok(authorization(&headers)?.map(|found| match found {
            Authorization::Signed { credential, signed_headers, .. } => {
                (credential.to_owned(), signed_headers.to_owned())
            }
            Authorization::Foreign => ("foreign".to_owned(), String::new()),
        }))
    }

    #[test]
    fn parts_are_read_in_any_order_and_spacing() {
        for line in [
            "AWS4-HMAC-SHA256 Credential=K, SignedHeaders=host, Signature=s",
            "AWS4-HMAC-SHA256 Credential=K,SignedHeaders=host,Signature=s",
            "AWS4-HMAC-SHA256   Signature=s ,\tSignedHeaders=host,, Credential=K,",
            "  aws4-hmac-sha256 signature=s credential=K signedheaders=host ",
            "AWS4-ECDSA-P256-SHA256 Credential=K, SignedHeaders=host, Signature=s",
        ] {
            assert_eq!(read_lines(&[line]), Ok(Some(("K".to_owned(), "host".to_owned()))), "{line}");
        }
    }

    #[test]
    fn other_aws_schemes_are_foreign() {
        for (line, foreign) in [
            ("Bearer AWS", false),
            ("Basic QVdTNA==", false),
            ("", false),
            ("AW", false),
            ("AWS AKID:c2ln", true),
            ("aws akid:c2ln", true),
            ("AWS3-HTTPS AWSAccessKeyId=a", true),
            ("AWS4-HMAC-SHA512 Credential=K", true),
            ("AWS4-HMAC-SHA256,Credential=K", true),
        ] {
            let found = read_lines(&[line]).unwrap();
            assert_eq!(found.is_some_and(|(key, _)| key == "foreign"), foreign, "{line}");
        }
    }

    #[test]
    fn ambiguous_header_is_refused() {
        const ONE: &str = "AWS4-HMAC-SHA256 Credential=K, SignedHeaders=host, Signature=s";
        for lines in [
            &[ONE, ONE][..],
            &[ONE, "Bearer t"],
            &["Bearer t", ONE],
            &["AWS a:b", "AWS c:d"],
            &[&format!("{ONE}, {ONE}")],
            &[&format!("Bearer t, {ONE}")],
            &[&format!("AWS a:b, {ONE}")],
            &[&format!("{ONE}, Credential=L")],
            &["AWS4-HMAC-SHA256"],
            &["AWS4-HMAC-SHA256 Credential=K, SignedHeaders=host"],
            &["AWS4-HMAC-SHA256 Credential = K, SignedHeaders=host, Signature=s"],
            &["AWS4-HMAC-SHA256\u{a0}Credential=K, SignedHeaders=host, Signature=s"],
        ] {
            assert!(read_lines(lines).is_err(), "{lines:?}");
        }
    }
}
