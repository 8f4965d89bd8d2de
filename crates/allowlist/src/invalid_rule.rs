//! Reasons why a rule is invalid.

use crate::host::InvalidHost;
use crate::target::PathRefusal;

/// A part of a rule that could never match anything, with the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRule {
    /// No host at all.
    #[error(
        "the host is empty and would match nothing: write a host name or a pattern such as \"*.example.com\""
    )]
    EmptyHost,
    /// `https://example.com`.
    #[error("a host has no scheme: write the host name alone")]
    HostWithScheme,
    /// `example.com/path`.
    #[error("a host has no path: write the path under `path` of a `url_prefixes` entry")]
    HostWithPath,
    /// `example.com:443`.
    #[error("a host has no port: write the host name alone (ports 80 and 443 are the only ones)")]
    HostWithPort,
    /// Anything else that is not a letter, digit, `-`, `_`, `.`, `*`, `?` or a class.
    #[error(
        "a host must not contain {0:?}: only letters, digits, `-`, `_`, `.`, `*`, `?` and classes such as `[a-z]`"
    )]
    HostCharacter(char),
    /// `[` without `]`.
    #[error("the `[` is never closed: write the class as in `[a-z]`")]
    UnclosedClass,
    /// `bü*.example`.
    #[error(
        "a label with letters outside ASCII must not contain a wildcard: write the label in full or as `xn--…`"
    )]
    WildcardInInternationalLabel,
    /// A name without wildcards that is invalid for this reason.
    #[error("{0}, so nothing would ever match: write a plain host name")]
    Host(InvalidHost),
    /// A pattern with wildcards that no host name fits.
    #[error("no host name can match this pattern: check its classes and its last label")]
    UnreachableHost,
    /// `repos/x`.
    #[error("a path begins with `/` or `*`: put a `/` before it")]
    PathStart,
    /// More than 8,192 characters.
    #[error("the path is longer than 8192 characters: end it earlier with `*`")]
    PathTooLong,
    /// A path that is refused before any rule is evaluated.
    #[error("{0}, and such paths are always refused: write the path decoded and without dot segments")]
    Path(PathRefusal),
    /// A path pattern with wildcards that no acceptable path fits.
    #[error(
        "no path can match this pattern: dot segments, backslashes and control characters are always refused"
    )]
    UnreachablePath,
    /// `main`, `refs/heads/a b`.
    #[error("no ref can match {0:?}: write refs in full, as in `refs/heads/agent/*`")]
    Ref(String),
    /// `/me/repo.git/`.
    #[error("a repository's path does not end in `/`: leave it out")]
    RepositoryPath,
    /// A rule of `deny` with `git`.
    #[error(
        "a rule of `deny` has no `git`: leave it out, and end the path with `*` to deny everything below it"
    )]
    DeniedRepository,
    /// Two keys of which the second excludes the first, such as `methods` and `git`.
    #[error("an entry has `{0}` or `{1}`, not both: leave `{0}` out, since `{1}` says what is asked for")]
    Excluded(&'static str, &'static str),
    /// `*`, an empty text, `GET,HEAD`.
    #[error(
        "{0:?} is not a method: write one method per item in letters and hyphens, or leave `methods` out for all"
    )]
    Method(String),
    /// A URL that no request could be for; the text is that of the denial.
    #[error("{0}")]
    Request(String),
    /// `https://example.com/*`.
    #[error(
        "a URL is literal, and this one has a `*`: write a pattern without `https://`, as in `GET api.example.com/repos/*`"
    )]
    UrlWithWildcard,
}
