//! Any network policy.

use allowlist::Allowlist;

/// `data` is a document; a NUL and a URL to judge may follow.
///
/// # Panics
///
/// When an empty policy allows something, or when two decisions about the same URL differ.
pub fn policy_document(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (document, url) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (Ok(document), Ok(url)) = (str::from_utf8(document), str::from_utf8(url)) else {
        return;
    };
    let urls = [url, "https://a.example/path?q=1", "http://A.example:8080/%2e%2e/x"];
    match Allowlist::from_yaml(document, "policy.yaml") {
        Ok(policy) => {
            drop(policy.lint());
            for url in urls {
                let (one, other) = (policy.judge("GET", url), policy.judge("GET", url));
                assert_eq!(one, other, "two decisions differ");
                assert!(!one.is_allowed() || document.contains(':'), "an empty policy allows something");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error has no message"),
    }
}
