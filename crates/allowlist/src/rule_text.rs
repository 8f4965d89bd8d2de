//! A rule in one line: as typed by a user, and as an item of a list in YAML.

use std::fmt::Write as _;
use std::str::FromStr;

use crate::authority::Authority;
use crate::denial::Denial;
use crate::git::RefPattern;
use crate::host_pattern::HostPattern;
use crate::invalid_rule::InvalidRule;
use crate::method::RuleMethod;
use crate::pattern::Pattern;
use crate::request::Request;
use crate::rule::Allowed;
use crate::rule::Rule;
use crate::rule::UrlRule;
use crate::url::AbsoluteUrl;

/// `HOST` (all of it), `HOST/PATH`, both patterns, or a literal URL; each may be preceded by
/// methods, as in `GET,HEAD HOST/PATH`.
///
/// ```
/// use allowlist::{Allowlist, Rule};
///
/// let rule: Rule = "GET,HEAD api.example/repos/*".parse()?;
/// assert_eq!(rule.to_yaml(), "{host: api.example, path: \"/repos/*\", methods: [GET, HEAD]}");
/// let policy = Allowlist::default().with_rules([rule, "https://b.example/a?b".parse()?]);
/// assert!(policy.judge("HEAD", "https://api.example/repos/x").is_allowed());
/// assert!(policy.judge("PUT", "https://b.example/a?b").is_allowed());
/// # Ok::<(), allowlist::InvalidRule>(())
/// ```
impl FromStr for Rule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let text = text.trim();
        let (methods, place) = match text.split_once(char::is_whitespace) {
            Some((methods, place)) => (methods.split(',').collect(), place.trim_start()),
            None => (Vec::new(), text),
        };
        if let Some(url) = AbsoluteUrl::split(place.as_bytes()) {
            return of_url(&url, methods);
        }
        let at = place.find('/').unwrap_or(place.len());
        let (host, path) = place.split_at_checked(at).unwrap_or((place, ""));
        if path.is_empty() && methods.is_empty() {
            HostPattern::new(host).map(Self::from)
        } else {
            UrlRule::new(host, path, methods).map(Self::from)
        }
    }
}

fn of_url(url: &AbsoluteUrl<'_>, methods: Vec<&str>) -> Result<Rule, InvalidRule> {
    let target = url.target();
    if target.contains(&b'*') {
        return Err(InvalidRule::UrlWithWildcard);
    }
    let refused = |denial: Denial| InvalidRule::Request(denial.message().to_owned());
    let authority = Authority::from_user(url.authority()).map_err(refused)?;
    let request = Request::read(url.scheme(), authority, b"GET", &target).map_err(refused)?;
    let path = Pattern::escape(request.target().for_matching());
    UrlRule::new(request.host().as_str(), &path, methods).map(Rule::from)
}

impl Rule {
    /// The rule as an item of its list in a policy in YAML, on one line.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let rule = match self {
            Self::Domain(host) => return scalar(host.as_str()),
            Self::Url(rule) => rule,
        };
        let path = rule.path().as_str();
        let allowed = match rule.allowed() {
            Allowed::Everything => None,
            Allowed::Methods(methods) => list("methods", methods.iter().map(RuleMethod::as_str)),
            Allowed::Git(git) => {
                let push = list("push", git.push.iter().map(RefPattern::as_str));
                let force = git.force.then(|| "force: true".to_owned());
                let delete = git.delete.then(|| "delete: true".to_owned());
                Some(format!("git: {}", mapping([push, force, delete])))
            }
        };
        mapping([
            Some(format!("host: {}", scalar(rule.host().as_str()))),
            (!path.is_empty()).then(|| format!("path: {}", scalar(path))),
            allowed,
        ])
    }
}

/// A mapping in YAML of the given entries.
fn mapping(entries: [Option<String>; 3]) -> String {
    let entries: Vec<_> = entries.into_iter().flatten().collect();
    format!("{{{}}}", entries.join(", "))
}

/// The entry `key` of a mapping in YAML, unless its list is empty.
fn list<'a>(key: &str, texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let texts: Vec<_> = texts.map(scalar).collect();
    (!texts.is_empty()).then(|| format!("{key}: [{}]", texts.join(", ")))
}

/// A YAML string, quoted unless it is unambiguous. In quotes, everything except printable ASCII is
/// escaped.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    // Neither a number nor a keyword of YAML.
    let is_text = text.starts_with('/')
        || text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.contains(['.', '/'])
        || matches!(text, "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS");
    if is_text && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            quoted.extend(['\\', c]);
        } else if c.is_ascii_graphic() || c == ' ' {
            quoted.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(quoted, "\\U{:08x}", u32::from(c));
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Allowlist;

    #[test]
    fn rules_in_one_line() {
        for (text, expected) in [
            ("A.example", "a.example"),
            ("*.a.example", r#""*.a.example""#),
            ("localhost", r#""localhost""#),
            ("10.0.0.1", r#""10.0.0.1""#),
            ("a.example/", "{host: a.example, path: /}"),
            ("a.example/x*", r#"{host: a.example, path: "/x*"}"#),
            ("GET a.example", "{host: a.example, methods: [GET]}"),
            (" get,purge  a.example/x ", r#"{host: a.example, path: /x, methods: [GET, "PURGE"]}"#),
            ("https://a.example", "{host: a.example, path: /}"),
            (
                "POST https://A.example:443/a%20b?c=[d]",
                r#"{host: a.example, path: "/a b[?]c=[[]d]", methods: [POST]}"#,
            ),
            ("http://10.0.0.1/é", ""),
            ("https://a.example/%C3%A9%e2%80%a8", r#"{host: a.example, path: "/\U000000e9\U00002028"}"#),
        ] {
            let rule = text.parse::<Rule>();
            assert_eq!(rule.map(|rule| rule.to_yaml()).unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn malformed_rule_is_refused_with_the_fix() {
        for (text, words) in [
            ("", "the host is empty"),
            ("ftp://a.example/", "a host"),
            ("a.example:8443/x", "a host has no port"),
            ("https://a.example:8443/x", "leave the port out"),
            ("https://a.example/x*", "write a pattern without"),
            ("https://u@a.example/", "before `@`"),
            ("https://a.example/../x", "dot segment"),
            ("https://localhost/", "the machine itself"),
            ("G(T a.example", "is not a method"),
            ("GET,a a b.example", "a host must not contain ' '"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn rule_survives_a_round_trip_through_yaml() {
        let policy = "
domains: ['*.x', 'null', a.b]
url_prefixes:
  - {host: a.b, path: \"/\\u2028\\ufeff#: {}[]'\\\"\", methods: [GET, NO, X-Y]}
  - {host: a.b, path: /r, git: {push: [refs/heads/x, '*'], force: true, delete: true}}
  - {host: a.b, git: {}}
";
        let policy = Allowlist::from_yaml(policy, "p").unwrap();
        let items = |list: &str| {
            let of_list = policy.rules().iter().filter(|rule| rule.kind().list() == list);
            of_list.fold(String::new(), |text, rule| text + "\n  - " + &rule.to_yaml())
        };
        let text = format!("domains:{}\nurl_prefixes:{}\n", items("domains"), items("url_prefixes"));
        assert_eq!(Allowlist::from_yaml(&text, "p"), Ok(policy), "{text}");
    }
}
