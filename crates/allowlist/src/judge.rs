//! The whole gate without a network: what would become of a request for a URL.

use serde::Serialize;

use crate::authority::Authority;
use crate::decision::Decision;
use crate::decision::Match;
use crate::denial::Denial;
use crate::policy::Allowlist;
use crate::reason::Reason;
use crate::request::Request;
use crate::url::AbsoluteUrl;

/// The answer for one URL; one line of `allowlist check --output json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[must_use]
pub struct Verdict {
    /// The method as given.
    pub method: String,
    /// The URL as given; bytes that are not UTF-8 are shown as U+FFFD.
    pub url: String,
    /// Whether the request would be forwarded, as far as that does not depend on addresses.
    pub allowed: bool,
    /// The rule that allows it.
    pub rule: Option<Match>,
    /// Why not.
    pub reason: Option<Reason>,
    /// Why not and what to change, in one sentence.
    pub message: Option<String>,
}

impl Allowlist {
    /// Judges a request for `url`, which is taken byte for byte: nothing is normalised, no fragment dropped.
    ///
    /// Unlike on the wire, the host may be written in any script.
    pub fn judge(&self, method: &str, url: impl AsRef<[u8]>) -> Verdict {
        let url = url.as_ref();
        let decision = match read(method, url) {
            Ok(request) => self.decide(&request),
            Err(denial) => Decision::Deny(denial),
        };
        let (rule, denial) = match decision {
            Decision::Allow(rule) => (Some(rule), None),
            Decision::Deny(denial) => (None, Some(denial)),
        };
        Verdict {
            method: method.to_owned(),
            url: String::from_utf8_lossy(url).into_owned(),
            allowed: rule.is_some(),
            rule,
            reason: denial.as_ref().map(Denial::reason),
            message: denial.map(|denial| denial.message().to_owned()),
        }
    }
}

fn read(method: &str, url: &[u8]) -> Result<Request, Denial> {
    // A method that is none makes the line unreadable, whatever the URL.
    crate::method::Method::from_wire(method.as_bytes())?;
    let Some(parts) = AbsoluteUrl::split(url) else {
        return Err(Denial::unreadable(
            "this is no http or https URL: write it in full, as in https://example.com/path",
        ));
    };
    Request::read(
        parts.scheme(),
        Authority::from_user(parts.authority())?,
        method.as_bytes(),
        &parts.target(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "
domains: [example.com, 'xn--bcher-kva.example', 10.0.0.1]
url_prefixes:
  - {host: api.example, path: /search, methods: [GET]}
  - {host: api.example, path: '/repos/*', methods: [get, POST]}
";

    #[test]
    fn verdicts() {
        let policy = Allowlist::from_yaml(POLICY, "policy.yaml").unwrap();
        for (method, url, expected) in [
            ("GET", "https://example.com", None),
            ("GET", "https://example.com/a?b", None),
            ("GET", "https://example.com?b", None),
            ("GET", "https://example.com/a?q=\"b\"<c>\u{fc}", None),
            ("GET", "https://localhost/", Some(Reason::Address)),
            ("GET", "https://example.com/a?b#c", Some(Reason::Path)),
            ("GET", "https://example.com/a#c", Some(Reason::Path)),
            ("DELETE", "http://EXAMPLE.com.:80/", None),
            ("GET", "https://bücher.example/", None),
            ("GET", "http://10.0.0.1/", None),
            ("GET", "https://api.example/search", None),
            ("post", "https://api.example/repos/x?y", None),
            ("GET", "https://10.0.0.1/", Some(Reason::NoSni)),
            ("GET", "example.com", Some(Reason::Unreadable)),
            ("GET", "ftp://example.com/", Some(Reason::Unreadable)),
            ("GET", "", Some(Reason::Unreadable)),
            ("G T", "https://a@example.com/", Some(Reason::Unreadable)),
            ("", "https://example.com/", Some(Reason::Unreadable)),
            ("GET", "https://u@example.com/", Some(Reason::Identity)),
            ("GET", "https:///x", Some(Reason::Identity)),
            ("GET", "https://[::1]/", Some(Reason::Identity)),
            ("GET", "http://0x7f.1/", Some(Reason::Identity)),
            ("GET", "https://exa%6dple.com/", Some(Reason::Identity)),
            ("GET", "https://example.com\\@evil.com/", Some(Reason::Identity)),
            ("GET", "https://example.com:8443/", Some(Reason::Port)),
            ("GET", "https://example.com:80/", Some(Reason::Port)),
            ("TRACE", "https://example.com/", Some(Reason::MethodForbidden)),
            ("GET", "https://example.com/a/../b", Some(Reason::Path)),
            ("GET", "https://example.com/a b", Some(Reason::Path)),
            ("GET", "https://example.com#x", Some(Reason::Path)),
            ("POST", "https://api.example/search", Some(Reason::Method)),
            ("GET", "https://api.example/search?", Some(Reason::Query)),
            ("GET", "https://api.example/search?q=1", Some(Reason::Query)),
            ("GET", "https://api.example/repos", Some(Reason::PathNotAllowed)),
            ("GET", "https://evil.example/", Some(Reason::Host)),
        ] {
            let verdict = policy.judge(method, url);
            assert_eq!(verdict.reason, expected, "{method} {url}: {verdict:?}");
            assert_eq!(verdict.allowed, expected.is_none());
            assert_eq!(verdict.rule.is_some(), verdict.allowed);
            assert_eq!(verdict.message.is_none(), verdict.allowed);
            assert_eq!((verdict.method.as_str(), verdict.url.as_str()), (method, url));
        }
    }

    #[test]
    fn json_shape() {
        let policy = Allowlist::from_yaml(POLICY, "policy.yaml").unwrap();
        let json = |method: &str, url: &str| serde_json::to_string(&policy.judge(method, url)).unwrap();
        assert_eq!(
            json("GET", "https://example.com/"),
            r#"{"method":"GET","url":"https://example.com/","allowed":true,"rule":{"kind":"domain","index":0,"host":"example.com","path":null},"reason":null,"message":null}"#
        );
        assert_eq!(
            json("GET", "https://api.example/repos/x"),
            r#"{"method":"GET","url":"https://api.example/repos/x","allowed":true,"rule":{"kind":"url","index":1,"host":"api.example","path":"/repos/*"},"reason":null,"message":null}"#
        );
        let denied: serde_json::Value = serde_json::from_str(&json("GET", "https://evil.example/")).unwrap();
        assert_eq!(
            (&denied["allowed"], &denied["rule"], &denied["reason"]),
            (&false.into(), &().into(), &"host".into())
        );
        assert!(denied["message"].is_string());
    }

    #[test]
    fn bytes_that_are_no_text_are_judged() {
        let policy = Allowlist::from_yaml(POLICY, "policy.yaml").unwrap();
        assert_eq!(
            policy.judge("GET", b"https://example.com/\xff").reason,
            Some(Reason::Path)
        );
        assert_eq!(
            policy.judge("GET", b"https://b\xfccher.example/").reason,
            Some(Reason::Identity)
        );
        assert_eq!(
            policy.judge("GET", b"https://example.com/?\xff").reason,
            Some(Reason::Path)
        );
    }
}
