//! The services of git's smart HTTP.

use crate::path_pattern::PathPattern;
use crate::request::Request;
use crate::target::Target;
use crate::target::decode_fully;

const SUFFIX: &str = ".git";
const PUSH: &str = "git-receive-pack";

/// The service that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Fetching, or listing refs for it.
    Fetch,
    /// Listing refs for a push.
    PushOffer,
    /// Pushing.
    Push,
}

impl Service {
    /// The service and the repository of `request`, if it has git's own spelling.
    pub(crate) fn of(request: &Request) -> Option<(Self, &str)> {
        let target = request.target();
        let (service, suffix) = match (request.method().as_str(), target.query()) {
            ("GET", Some(b"service=git-upload-pack")) => (Self::Fetch, "/info/refs"),
            ("GET", Some(b"service=git-receive-pack")) => (Self::PushOffer, "/info/refs"),
            ("POST", None) if target.path().ends_with(PUSH) => (Self::Push, "/git-receive-pack"),
            ("POST", None) => (Self::Fetch, "/git-upload-pack"),
            _ => return None,
        };
        let repository = target.path().strip_suffix(suffix)?;
        (!repository.is_empty()).then_some((service, repository))
    }
}

/// Whether `pattern` covers a repository, with or without `.git` at the end of its path.
pub(crate) fn covers(pattern: &PathPattern, repository: &str) -> bool {
    if pattern.matches_text(repository) {
        return true;
    }
    match repository.strip_suffix(SUFFIX) {
        // A different repository, whose name itself ends in `.git`.
        Some(bare) if bare.strip_suffix(SUFFIX).is_some() => false,
        Some(bare) => pattern.matches_text(bare),
        None => pattern.matches_text(&format!("{repository}{SUFFIX}")),
    }
}

/// Whether some server could treat a request for `target` as a push, or as listing refs for one.
pub(crate) fn could_push(target: &Target) -> bool {
    let decoded = |bytes| String::from_utf8_lossy(&decode_fully(bytes)).to_ascii_lowercase();
    let path = decoded(target.path().as_bytes());
    let mut segments =
        path.split('/').map(|segment| segment.split([';', '?', '#', ' ']).next().unwrap_or_default());
    if segments.any(|segment| segment == PUSH) {
        return true;
    }
    let query = decoded(target.query().unwrap_or_default());
    let mut pairs = query.split(['&', ';']).filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| name.contains("service") && value.contains(PUSH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::Scheme;

    fn service(method: &str, target: &str) -> Option<(Service, String)> {
        let request =
            Request::from_wire(Scheme::Https, b"a.example", method.as_bytes(), target.as_bytes()).unwrap();
        Service::of(&request).map(|(service, repository)| (service, repository.to_owned()))
    }

    #[test]
    fn requests_of_git_are_recognised() {
        use Service::{Fetch, Push, PushOffer};
        for (method, target, expected) in [
            ("GET", "/me/r.git/info/refs?service=git-upload-pack", Some((Fetch, "/me/r.git"))),
            ("GET", "/me/r/info/refs?service=git-receive-pack", Some((PushOffer, "/me/r"))),
            ("POST", "/me/r.git/git-upload-pack", Some((Fetch, "/me/r.git"))),
            ("POST", "/me/r.git/git-receive-pack", Some((Push, "/me/r.git"))),
            ("POST", "/me%2Fr/git%2dreceive-pack", Some((Push, "/me/r"))),
            ("GET", "/me/r.git/info/refs", None),
            ("GET", "/me/r.git/HEAD", None),
            ("GET", "/me/r.git/info/refs?service=git-upload-archive", None),
            ("GET", "/me/r.git/info/refs?service=git-upload-pack&x", None),
            ("GET", "/me/r.git/git-upload-pack", None),
            ("POST", "/me/r.git/git-receive-pack?", None),
            ("POST", "/me/r.git/git-receive-pack/", None),
            ("POST", "/me/r.gitgit-receive-pack", None),
            ("POST", "/git-receive-pack", None),
            ("post", "/me/r.git/git-receive-pack", None),
            ("HEAD", "/me/r.git/info/refs?service=git-upload-pack", None),
        ] {
            let expected = expected.map(|(service, repository)| (service, repository.to_owned()));
            assert_eq!(service(method, target), expected, "{method} {target}");
        }
    }

    #[test]
    fn push_in_any_spelling_is_recognised() {
        for (target, expected) in [
            ("/me/r.git/git-receive-pack", true),
            ("/me/r.git/git-receive-pack/", true),
            ("/me/r.git/GIT-Receive-Pack", true),
            ("/me/r.git/git%2Dreceive%2dpack", true),
            ("/me/r.git/git%252dreceive-pack", true),
            ("/me/r.git%2fgit-receive-pack", true),
            ("/me/r.git/git-receive-pack;x=1", true),
            ("/me/r.git/git-receive-pack%3Fx", true),
            ("/me/r.git//git-receive-pack//x", true),
            ("/me/r.git/git-receive-pack%20", true),
            ("/me/r.git/info/refs?service=git-receive-pack", true),
            ("/me/r.git/info/refs?a&service=git%2Dreceive-pack", true),
            ("/me/r.git/info/refs?a;SERVICE=GIT-RECEIVE-PACK", true),
            ("/me/r.git/info/refs?s%65rvice=git-receive-pack%00", true),
            ("/x?service[]=git-receive-pack", true),
            ("/me/r.git/info/refs?service=git-upload-pack", false),
            ("/me/r.git/git-upload-pack", false),
            ("/git/git/blob/master/Documentation/git-receive-pack.adoc", false),
            ("/search?q=git-receive-pack", false),
        ] {
            assert_eq!(could_push(&Target::from_wire(target.as_bytes()).unwrap()), expected, "{target}");
        }
    }

    #[test]
    fn repository_is_the_same_with_and_without_suffix() {
        for (pattern, repository, expected) in [
            ("/me/r.git", "/me/r.git", true),
            ("/me/r.git", "/me/r", true),
            ("/me/r", "/me/r.git", true),
            ("/me/r.git", "/me/r.git.git", false),
            ("/me/r", "/me/r.git.git", false),
            ("/me/*", "/me/r", true),
            ("/me/*.git", "/me/r", true),
            ("/me/r.git", "/me/r.git/", false),
            ("/me/r.git", "/me/R.git", false),
            ("", "/any", true),
        ] {
            assert_eq!(
                covers(&PathPattern::new(pattern).unwrap(), repository),
                expected,
                "{pattern} {repository}"
            );
        }
    }
}
