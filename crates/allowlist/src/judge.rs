//! Complete decisions about URLs, without a network.

use crate::authority::Authority;
use crate::decision::Decision;
use crate::denial::Denial;
use crate::policy::Allowlist;
use crate::request::Request;
use crate::url::AbsoluteUrl;

impl Allowlist {
    /// Judges a request for exactly `url`: nothing is normalised, no fragment dropped.
    ///
    /// Unlike on the wire, the host may be written in any script. The host is not resolved.
    pub fn judge(&self, method: &str, url: impl AsRef<[u8]>) -> Decision {
        match read(method, url.as_ref()) {
            Ok(request) => self.decide(&request),
            Err(denial) => Decision::Deny(denial),
        }
    }
}

/// The request for exactly `url`.
pub(crate) fn read(method: &str, url: &[u8]) -> Result<Request, Denial> {
    // An invalid method makes the request line unreadable, regardless of the URL.
    crate::method::Method::from_wire(method.as_bytes())?;
    let Some(parts) = AbsoluteUrl::split(url) else {
        return Err(Denial::unreadable(
            "this is not an http or https URL: write it in full, as in https://example.com/path",
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
    use crate::reason::Reason;

    const POLICY: &str = "
domains: [example.com, 'xn--bcher-kva.example', 10.0.0.1]
url_prefixes:
  - {host: api.example, path: /search, methods: [GET]}
  - {host: api.example, path: '/repos/*', methods: [get, POST]}
";

    fn reason(policy: &Allowlist, method: &str, url: impl AsRef<[u8]>) -> Option<Reason> {
        match policy.judge(method, url) {
            Decision::Allow(_) | Decision::NeedsBody(_) => None,
            Decision::Deny(denial) => Some(denial.reason()),
        }
    }

    #[test]
    fn decisions() {
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
            assert_eq!(reason(&policy, method, url), expected, "{method} {url}");
        }
    }

    #[test]
    fn request_with_bytes_that_are_not_text_is_judged() {
        let policy = Allowlist::from_yaml(POLICY, "policy.yaml").unwrap();
        assert_eq!(reason(&policy, "GET", b"https://example.com/\xff"), Some(Reason::Path));
        assert_eq!(reason(&policy, "GET", b"https://b\xfccher.example/"), Some(Reason::Identity));
        assert_eq!(reason(&policy, "GET", b"https://example.com/?\xff"), Some(Reason::Path));
    }
}
