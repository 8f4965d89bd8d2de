//! The signature that a request carries.

use std::time::SystemTime;

use http::{HeaderMap, HeaderName};

use super::algorithm::Algorithm;
use super::authorization::{Authorization, authorization};
use super::error::SignError;
use super::scope::{Scope, is_region};
use super::target::Target;
use super::timestamp::Timestamp;

/// An AWS signature as the client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    carrier: Carrier,
    signature: Option<Signature>,
}

/// Where a signature is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// In the `Authorization` header.
    Header,
    /// In the query: a presigned URL.
    Query,
}

/// A signature that can be recomputed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: String,
    pub(super) scope: Scope,
    pub(super) signed_headers: Vec<HeaderName>,
    pub(super) timestamp: Timestamp,
    pub(super) region_set: Option<String>,
}

/// Finds the AWS signature of a request to `target` (path and query); `None` if there is none.
///
/// # Errors
///
/// When there is more than one, or one that cannot be read: such a request must not be passed on.
pub(crate) fn claim(headers: &HeaderMap, target: &str) -> Result<Option<Claim>, SignError> {
    let target = Target::new(target);
    let in_header = of_header(headers)?;
    let in_query = of_query(&target)?;
    match (in_header, in_query) {
        (Some(_), Some(_)) => Err(SignError::Ambiguous("AWS signature")),
        (found, None) | (None, found) => Ok(found),
    }
}

impl Claim {
    /// The id of the key it was made with; empty for a scheme that is not recomputed, so that it
    /// equals no other.
    pub(crate) fn key_id(&self) -> &str {
        self.signature.as_ref().map_or("", |signature| &signature.key_id)
    }

    /// The region, or the set of regions, that it is for.
    pub(crate) fn region(&self) -> Option<&str> {
        let signature = self.signature.as_ref()?;
        signature.scope.region().or(signature.region_set.as_deref()).filter(|region| !region.is_empty())
    }

    /// The time at which the client claims to have signed. A time far from now means that the
    /// client's clock is wrong and AWS will refuse the signature.
    pub(crate) fn time(&self) -> Option<SystemTime> {
        self.signature.as_ref().map(|signature| signature.timestamp.time())
    }

    /// Where it is.
    pub(crate) fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// How it was computed; `None` for a scheme that is not recomputed.
    #[cfg(test)]
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.signature.as_ref().map(|signature| signature.algorithm)
    }

    /// The parts needed to recompute it.
    pub(super) fn signature(&self) -> Result<&Signature, SignError> {
        self.signature.as_ref().ok_or(SignError::ForeignScheme)
    }
}

fn of_header(headers: &HeaderMap) -> Result<Option<Claim>, SignError> {
    let signature = match authorization(headers)? {
        None => return Ok(None),
        Some(Authorization::Foreign) => None,
        Some(Authorization::Signed { algorithm, credential, signed_headers }) => {
            let (key_id, scope) = Scope::of_credential(algorithm, credential)?;
            Some(Signature {
                algorithm,
                key_id,
                scope,
                signed_headers: header_names(signed_headers)?,
                timestamp: header_timestamp(headers)?,
                region_set: region_set(single(headers, "x-amz-region-set")?)?,
            })
        }
    };
    Ok(Some(Claim { carrier: Carrier::Header, signature }))
}

fn of_query(target: &Target) -> Result<Option<Claim>, SignError> {
    let current =
        ["x-amz-algorithm", "x-amz-credential", "x-amz-signature"].iter().any(|name| target.has(name));
    let signature = if current {
        presigned(target)?
    } else if target.has("awsaccesskeyid") {
        None
    } else {
        return Ok(None);
    };
    Ok(Some(Claim { carrier: Carrier::Query, signature }))
}

fn presigned(target: &Target) -> Result<Option<Signature>, SignError> {
    if target.has("awsaccesskeyid") {
        return Err(SignError::Ambiguous("AWS signature"));
    }
    let required =
        |name| target.value(name)?.ok_or(SignError::Malformed("a parameter of the presigned URL is missing"));
    let credential = required("x-amz-credential")?;
    let Some(algorithm) = Algorithm::from_name(required("x-amz-algorithm")?) else {
        return Ok(None);
    };
    required("x-amz-signature")?;
    target.value("x-amz-security-token")?;
    let (key_id, scope) = Scope::of_credential(algorithm, credential)?;
    Ok(Some(Signature {
        algorithm,
        key_id,
        scope,
        signed_headers: header_names(required("x-amz-signedheaders")?)?,
        timestamp: Timestamp::basic(required("x-amz-date")?)
            .ok_or(SignError::Malformed("the date has the wrong form"))?,
        region_set: region_set(target.value("x-amz-region-set")?)?,
    }))
}

fn header_names(list: &str) -> Result<Vec<HeaderName>, SignError> {
    let mut names = Vec::new();
    for name in list.split(';') {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| SignError::Malformed("the name of a signed header is invalid"))?;
        if names.contains(&name) {
            return Err(SignError::Ambiguous("signed header"));
        }
        names.push(name);
    }
    Ok(names)
}

fn header_timestamp(headers: &HeaderMap) -> Result<Timestamp, SignError> {
    let timestamp = match single(headers, "x-amz-date")? {
        Some(text) => Timestamp::basic(text),
        None => single(headers, "date")?.and_then(Timestamp::of_date_header),
    };
    timestamp.ok_or(SignError::Malformed("the date has the wrong form"))
}

fn region_set(text: Option<&str>) -> Result<Option<String>, SignError> {
    match text {
        Some(text) if !is_region(text) => Err(SignError::Malformed("the set of regions has the wrong form")),
        text => Ok(text.map(str::to_owned)),
    }
}

/// The only value of the header `name`.
///
/// # Errors
///
/// When there are several, or when it is not ASCII.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, SignError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(SignError::Ambiguous(name));
    }
    value.to_str().map(|text| Some(text.trim())).map_err(|_| SignError::Malformed("a header is not ASCII"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::AUTHORIZATION;

    use super::*;

    const HEADER: &str = "AWS4-HMAC-SHA256 Credential=AKID/20150830/us-east-1/s3/aws4_request, \
                          SignedHeaders=host;X-Amz-Date, Signature=aa";
    const QUERY: &str = "/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20150830%2Fus-east-1%2Fs3%2Faws4_request\
                         &X-Amz-Date=20150830T123600Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=aa";

    fn header_map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn signature_is_found_in_header_or_query() {
        let headers = header_map(&[("authorization", HEADER), ("x-amz-date", "20150830T123600Z")]);
        let found = claim(&headers, "/k?list-type=2").unwrap().unwrap();
        assert_eq!(found.carrier(), Carrier::Header);
        assert_eq!(found.key_id(), "AKID");
        assert_eq!(found.region(), Some("us-east-1"));
        assert_eq!(found.algorithm(), Some(Algorithm::V4));
        assert_eq!(found.time(), Some(Timestamp::basic("20150830T123600Z").unwrap().time()));
        assert_eq!(found.signature().unwrap().signed_headers, ["host", "x-amz-date"]);

        for target in [
            QUERY.to_owned(),
            QUERY.to_ascii_lowercase().replace("t123600z", "T123600Z"),
            QUERY.replace("%2F", "/"),
            QUERY.replace("AKID", "%41KID"),
            QUERY.replace("X-Amz-Credential", "X%2dAmz-Credential"),
        ] {
            let found = claim(&HeaderMap::new(), &target).unwrap().unwrap();
            assert_eq!(found.carrier(), Carrier::Query, "{target}");
            assert!(found.key_id().eq_ignore_ascii_case("AKID"), "{target}");
            assert_eq!(found.region(), Some("us-east-1"), "{target}");
        }
    }

    #[test]
    fn unsigned_request_has_no_claim() {
        let headers = header_map(&[("authorization", "Bearer x"), ("x-amz-date", "whenever")]);
        for target in ["/", "/?Signature=1", "/X-Amz-Signature", "/?a=X-Amz-Credential"] {
            assert_eq!(claim(&headers, target), Ok(None), "{target}");
        }
    }

    #[test]
    fn other_schemes_are_foreign() {
        let none = HeaderMap::new();
        let version_2 = header_map(&[("authorization", "AWS AKID:c2ln")]);
        for (headers, target) in [
            (&version_2, "/"),
            (&none, "/?AWSAccessKeyId=AKID&Signature=s&Expires=1"),
            (&none, "/?awsaccesskeyid=AKID"),
            (&none, "/?X-Amz-Algorithm=AWS4-HMAC-SHA512&X-Amz-Credential=AKID"),
        ] {
            let found = claim(headers, target).unwrap().unwrap();
            assert_eq!(found.key_id(), "", "{target}");
            assert_eq!(found.algorithm(), None, "{target}");
            assert_eq!(found.signature(), Err(SignError::ForeignScheme), "{target}");
        }
    }

    #[test]
    fn two_signatures_are_refused() {
        let headers = header_map(&[("authorization", HEADER), ("x-amz-date", "20150830T123600Z")]);
        let version_2 = header_map(&[("authorization", "AWS AKID:c2ln")]);
        for (headers, target) in [
            (&headers, QUERY.to_owned()),
            (&version_2, QUERY.to_owned()),
            (&headers, "/?AWSAccessKeyId=AKID".to_owned()),
            (&HeaderMap::new(), format!("{QUERY}&x-amz-credential=B")),
            (&HeaderMap::new(), format!("{QUERY}&X%2DAmz-Signature=bb")),
            (&HeaderMap::new(), format!("{QUERY}&AWSAccessKeyId=AKID")),
            (&HeaderMap::new(), format!("{QUERY}&X-Amz-Security-Token=a&X-Amz-Security-Token=b")),
        ] {
            assert!(matches!(claim(headers, &target), Err(SignError::Ambiguous(_))), "{target}");
        }
    }

    #[test]
    fn unreadable_signature_is_refused() {
        for target in [
            "/?X-Amz-Signature=aa".to_owned(),
            "/?X-Amz-Credential=AKID%2F20150830%2Fus-east-1%2Fs3%2Faws4_request".to_owned(),
            QUERY.replace("20150830T123600Z", "now"),
            QUERY.replace("us-east-1", "us%0Aeast"),
            QUERY.replace("=host", "="),
            QUERY.replace("=host", "=host;host"),
            QUERY.replace("=host", "=ho%20st"),
            QUERY.replace("&X-Amz-Expires=60", "&X-Amz-Region-Set=a%5Db"),
        ] {
            assert!(claim(&HeaderMap::new(), &target).is_err(), "{target}");
        }
        for pairs in [
            &[("authorization", HEADER)][..],
            &[("authorization", HEADER), ("x-amz-date", "2015-08-30")],
            &[
                ("authorization", HEADER),
                ("x-amz-date", "20150830T123600Z"),
                ("x-amz-date", "20150830T123600Z"),
            ],
        ] {
            assert!(claim(&header_map(pairs), "/").is_err(), "{pairs:?}");
        }
        let dated = header_map(&[("authorization", HEADER), ("date", "Sun, 30 Aug 2015 12:36:00 GMT")]);
        assert!(claim(&dated, "/").is_ok());
        assert!(dated.contains_key(AUTHORIZATION));
    }
}
