//! Splits a URL without changing a byte.

use std::borrow::Cow;

use crate::scheme::Scheme;

/// The unmodified parts of an absolute `http` or `https` URL, or of an absolute-form target.
///
/// ```
/// use allowlist::{AbsoluteUrl, Scheme};
///
/// let url = AbsoluteUrl::split(b"https://example.com/a?b").ok_or("no http URL")?;
/// assert_eq!((url.scheme(), url.authority(), &*url.target()), (Scheme::Https, &b"example.com"[..], &b"/a?b"[..]));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsoluteUrl<'a> {
    scheme: Scheme,
    authority: &'a [u8],
    rest: &'a [u8],
}

impl<'a> AbsoluteUrl<'a> {
    /// Splits a URL; `None` if it does not begin with `http://` or `https://`. Nothing else is
    /// checked.
    #[must_use]
    pub fn split(url: &'a [u8]) -> Option<Self> {
        let (scheme, rest) = [(Scheme::Http, "http://"), (Scheme::Https, "https://")].into_iter().find_map(
            |(scheme, prefix)| {
                let (start, rest) = url.split_at_checked(prefix.len())?;
                start.eq_ignore_ascii_case(prefix.as_bytes()).then_some((scheme, rest))
            },
        )?;
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        Some(Self { scheme, authority, rest })
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The part between `://` and the path.
    #[must_use]
    pub fn authority(&self) -> &'a [u8] {
        self.authority
    }

    /// Path and query in origin form: a missing path is `/`, as clients send it; everything else is
    /// as written.
    #[must_use]
    pub fn target(&self) -> Cow<'a, [u8]> {
        match self.rest {
            [] | [b'?', ..] => Cow::Owned([b"/", self.rest].concat()),
            _ => Cow::Borrowed(self.rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_table() {
        for (url, expected) in [
            ("https://example.com/a?b#c", Some(("https", "example.com", "/a?b#c"))),
            ("HTTP://Example.com", Some(("http", "Example.com", "/"))),
            ("https://example.com?x", Some(("https", "example.com", "/?x"))),
            ("https://example.com#x", Some(("https", "example.com", "#x"))),
            ("https://a\\@b/c", Some(("https", "a\\@b", "/c"))),
            ("https:///x", Some(("https", "", "/x"))),
            ("https://", Some(("https", "", "/"))),
            ("https:/example.com/", None),
            ("ftp://example.com/", None),
            ("example.com/", None),
            (" https://example.com/", None),
            ("", None),
        ] {
            let parts = AbsoluteUrl::split(url.as_bytes());
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let parts = parts.map(|u| (u.scheme().as_str(), text(u.authority()), text(&u.target())));
            assert_eq!(parts, expected.map(|(s, a, t)| (s, a.to_owned(), t.to_owned())), "{url}");
        }
    }
}
