//! Warnings about valid rules that are probably mistakes.

use std::collections::BTreeMap;
use std::fmt;

use crate::host_pattern::HostPattern;
use crate::pattern::Pattern;
use crate::pattern::Token;
use crate::policy::Allowlist;
use crate::rule::Allowed;
use crate::rule::Rule;
use crate::rule::RuleKind;
use crate::rule::UrlRule;

/// The methods of IANA's registry, except CONNECT, TRACE and those that no client sends.
const REGISTERED: [&str; 36] = [
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "VERSION-CONTROL",
];

/// Advice about a policy or one of its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    rule: Option<(RuleKind, usize)>,
    message: String,
}

impl Warning {
    /// The rule that it concerns, by list and index; `None` if it concerns the whole policy.
    #[must_use]
    pub fn rule(&self) -> Option<(RuleKind, usize)> {
        self.rule
    }

    /// The probable mistake and its fix.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// The message; [`PolicyText::lint`](crate::PolicyText::lint) has the positions.
impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Allowlist {
    /// Looks for rules that allow more than is apparent, have no effect, or never match as
    /// intended.
    #[must_use]
    pub fn lint(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.is_empty() {
            let message = "the policy is empty and allows nothing: add hosts under `domains`".to_owned();
            warnings.push(Warning { rule: None, message });
        }
        warnings.extend(self.vendor_tools().unlimited().map(|tool| {
            let fix = match tool.least() {
                "policy" => "write `policy`",
                _ => "leave it out unless it is needed",
            };
            let message = format!(
                "`vendor_tools: {{{tool}: any}}` lets a model's vendor carry what the task sends to places that this policy does not \
                 allow: {fix}"
            );
            Warning { rule: None, message }
        }));
        for (index, rule) in self.denied().iter().enumerate() {
            let messages = deny_pitfall(rule);
            warnings.extend(messages.map(|message| Warning { rule: Some((RuleKind::Deny, index)), message }));
        }
        let denied = HostIndex::new(self.denied().iter().map(Rule::host));
        for (place, rule) in self.places().filter(|(place, _)| place.preset.is_none()) {
            let covers =
                |at: usize, _: &HostPattern| self.denied().get(at).is_some_and(|denied| denied.covers(rule));
            warnings.extend(denied.first_covering(rule.host(), covers).map(|(index, _)| Warning {
                rule: Some((place.kind, place.index)),
                message: format!("`deny[{index}]` forbids all of this: remove one"),
            }));
        }
        let domains = HostIndex::new(self.domains());
        // Rules of presets are reviewed, and not in the lists that warnings name.
        let rules: Vec<&UrlRule> = self.own_rules().iter().filter_map(Rule::as_url).collect();
        let urls = HostIndex::new(rules.iter().map(|rule| rule.host()));
        for (index, host) in self.domains().enumerate() {
            let messages = host_breadth(host, true).into_iter().chain(shadowed_domain(&domains, index, host));
            warnings
                .extend(messages.map(|message| Warning { rule: Some((RuleKind::Domain, index)), message }));
        }
        for (index, rule) in rules.iter().enumerate() {
            let messages = host_breadth(rule.host(), rule.path().covers_every_path())
                .into_iter()
                .chain(path_pitfall(rule))
                .chain(method_pitfall(rule))
                .chain(whole_host(&domains, &rules, rule))
                .chain(shadowed_url(&domains, &urls, rules.get(..index).unwrap_or_default(), rule));
            warnings.extend(messages.map(|message| Warning { rule: Some((RuleKind::Url, index)), message }));
        }
        warnings
    }
}

fn shadowed_url(
    domains: &HostIndex<'_>,
    urls: &HostIndex<'_>,
    earlier: &[&UrlRule],
    rule: &UrlRule,
) -> Option<String> {
    let whole = domains.first_covering(rule.host(), |_, _| rule.git().is_none());
    if let Some((_, domain)) = whole {
        return Some(format!(
            "`domains` has `{domain}`, which allows all of `{}` already, so path and methods restrict nothing: remove one",
            rule.host(),
        ));
    }
    let covers = |other: usize| earlier.get(other).is_some_and(|earlier| covers_rule(earlier, rule));
    let (other, host) = urls.first_covering(rule.host(), |other, _| covers(other))?;
    let path = earlier.get(other).map_or("", |earlier| earlier.path().as_str());
    Some(format!("the rule for `{host}{path}` before it allows all of this already: remove one"))
}

/// A rule for repositories of hosts that are allowed entirely.
fn whole_host(domains: &HostIndex<'_>, rules: &[&UrlRule], rule: &UrlRule) -> Option<String> {
    rule.git()?;
    let domain = domains.first_covering(rule.host(), |_, _| true).map(|_| RuleKind::Domain);
    let whole = |wide: &&UrlRule| wide.allows_every_request() && wide.path().covers_every_path();
    let url = || rules.iter().any(|wide| whole(wide) && covers_host(wide.host(), rule.host()));
    let kind = domain.or_else(|| url().then_some(RuleKind::Url))?;
    Some(format!(
        "another rule, in `{}`, allows all of `{}`, so `git` restricts pushes and nothing else: name the paths that are meant there",
        kind.list(),
        rule.host(),
    ))
}

fn shadowed_domain(domains: &HostIndex<'_>, index: usize, host: &HostPattern) -> Option<String> {
    // Of two equal rules, the second is reported.
    let (_, wide) =
        domains.first_covering(host, |other, wide| other < index || (other != index && wide != host))?;
    Some(format!("`{host}` is covered by `{wide}` already: remove one"))
}

/// The hosts of a list of rules. A policy may have thousands of exact ones, each of which covers
/// only itself.
struct HostIndex<'a> {
    exact: BTreeMap<&'a str, Vec<(usize, &'a HostPattern)>>,
    wildcards: Vec<(usize, &'a HostPattern)>,
}

impl<'a> HostIndex<'a> {
    fn new(hosts: impl Iterator<Item = &'a HostPattern>) -> Self {
        let (exact, wildcards): (Vec<_>, Vec<_>) = hosts.enumerate().partition(|(_, host)| host.is_exact());
        let mut index = Self { exact: BTreeMap::new(), wildcards };
        for (place, host) in exact {
            index.exact.entry(host.as_str()).or_default().push((place, host));
        }
        index
    }

    /// The first host in the list that covers all of `host` and that `counts`, with its index.
    fn first_covering(
        &self,
        host: &HostPattern,
        counts: impl Fn(usize, &HostPattern) -> bool,
    ) -> Option<(usize, &'a HostPattern)> {
        let same = self.exact.get(host.as_str()).filter(|_| host.is_exact());
        let same = same.and_then(|places| places.iter().find(|(place, same)| counts(*place, same)));
        let mut wider = self.wildcards.iter();
        let wider = wider.find(|(place, wide)| counts(*place, wide) && covers_host(wide, host));
        let first = same.into_iter().chain(wider).min_by_key(|(place, _)| *place);
        first.copied()
    }
}

/// A warning about a host pattern that covers more than it seems to.
fn host_breadth(host: &HostPattern, whole: bool) -> Option<String> {
    let text = host.as_str();
    if host.is_exact() {
        return None;
    }
    if text.bytes().all(|byte| matches!(byte, b'*' | b'.')) {
        let extent = if whole { "every host" } else { "this path on every host" };
        return Some(format!("`{text}` allows {extent}: name the hosts that are meant"));
    }
    if looks_like_address(text) {
        return Some(format!("`{text}` never matches an IPv4 address: name each address in full"));
    }
    if text.ends_with('*') {
        let example = text.replace('*', "x.evil.example");
        return Some(format!(
            "`{text}` also covers names under other domains, such as {example}: end it with a domain"
        ));
    }
    if let Some(rest) = text.strip_prefix('*') {
        if !rest.starts_with('.') && !rest.starts_with('*') {
            let plain = rest.replace(['*', '?'], "x");
            return Some(format!(
                "`{text}` also covers names such as evil{plain}: write `*.{rest}` and `{rest}`"
            ));
        }
        let domain = rest.trim_start_matches(['*', '.']);
        if !domain.contains(['.', '*', '?', '[']) {
            return Some(format!(
                "`{text}` covers a whole top-level domain: name the domains that are meant"
            ));
        }
    }
    None
}

/// A rule of `deny` that does not match as intended, so that nothing is denied.
fn deny_pitfall(rule: &Rule) -> impl Iterator<Item = String> {
    let url = rule.as_url();
    // Escapes and a final `/` mean the same without.
    let is_plain = |rule: &&UrlRule| rule.path().plain().is_none();
    let path = url.filter(is_plain).and_then(path_pitfall);
    path.into_iter().chain(url.and_then(method_pitfall))
}

fn looks_like_address(text: &str) -> bool {
    text.contains('.')
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || b".*?[]-!".contains(&byte))
}

fn path_pitfall(rule: &UrlRule) -> Option<String> {
    let path = rule.path().as_str();
    if path.to_ascii_lowercase().replace("%3f", "").contains('%') {
        return Some(format!(
            "`{path}` is compared with the decoded path: write the characters themselves, not escapes"
        ));
    }
    if path.contains("%3f") {
        return Some(format!(
            "`{path}`: an encoded question mark is compared as `%3F`: write it in upper case"
        ));
    }
    if path.ends_with('/') {
        return Some(format!("`{path}` covers this one path only: write `{path}*` for everything below it"));
    }
    if wildcard_before_query(rule.path().pattern()) {
        return Some(format!(
            "the `?` in `{path}` matches any one character: write `[?]` for the question mark itself"
        ));
    }
    None
}

/// Whether a `?` is probably meant as the question mark of a query.
fn wildcard_before_query(pattern: &Pattern) -> bool {
    let mut wildcard = false;
    for token in pattern.tokens() {
        match token {
            Token::Any => wildcard = true,
            Token::Literal('=') if wildcard => return true,
            Token::Class(class) if class.matches('?') => return false,
            Token::Literal(_) | Token::Class(_) => {}
        }
    }
    false
}

fn method_pitfall(rule: &UrlRule) -> Option<String> {
    let Allowed::Methods(methods) = rule.allowed() else { return None };
    if let Some(method) = methods.iter().find(|method| method.is_forbidden()) {
        return Some(format!("{} is never allowed: remove it", method.as_str()));
    }
    let method = methods.iter().find(|method| !REGISTERED.contains(&method.as_str()))?;
    Some(format!("{} is not a registered HTTP method: write one such as GET or POST", method.as_str()))
}

pub(crate) fn covers_rule(wide: &UrlRule, narrow: &UrlRule) -> bool {
    wide.allows_all_of(narrow)
        && covers_host(wide.host(), narrow.host())
        && (wide.path().covers_every_path() || covers(wide.path().pattern(), narrow.path().pattern()))
}

pub(crate) fn covers_host(wide: &HostPattern, narrow: &HostPattern) -> bool {
    // A wildcard never covers an address.
    let address = narrow.is_exact() && narrow.as_str().parse::<std::net::Ipv4Addr>().is_ok();
    wide == narrow || (!address && covers(wide.pattern(), narrow.pattern()))
}

/// Whether `wide` matches everything that `narrow` matches; may be a false negative, never a false
/// positive.
///
/// If `*` is the only wildcard of `wide`, only a `*` of it can match a wildcard of `narrow`, so the
/// text of `narrow` can be matched as if its wildcards were ordinary characters. This does not hold
/// for text inside a class, so classes are excluded.
pub(crate) fn covers(wide: &Pattern, narrow: &Pattern) -> bool {
    if narrow.is_exact() {
        return wide.matches(narrow.as_str());
    }
    wide == narrow || (wide.has_only_stars() && !narrow.has_class() && wide.matches(narrow.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &str, expected: &[&str]) {
        let warnings = Allowlist::from_yaml(policy, "policy.yaml").unwrap().lint();
        let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), expected.len(), "{policy}: {texts:#?}");
        for (text, start) in texts.iter().zip(expected) {
            assert!(text.contains(start), "{policy}: {text}");
        }
    }

    #[test]
    fn sound_policy_has_no_warnings() {
        check("domains: [github.com, '*.github.com', 10.0.0.1]", &[]);
        check("domains: ['*.com.example', 'api-?.x.example']", &[]);
        check(
            "url_prefixes: [{host: a.example, path: /x}, {host: a.example, path: '/x/*', methods: [GET]}]",
            &[],
        );
        check(
            "url_prefixes: [{host: a.example, path: '/x*', methods: [GET]}, {host: a.example, path: /x}]",
            &[],
        );
        check("url_prefixes: [{host: a.example, path: '/*%3F*'}, {host: a.example, path: '/x[?]a=*'}]", &[]);
        check("url_prefixes: [{host: a.example, path: '/*'}, {host: a.b.example}]", &[]);
    }

    #[test]
    fn broad_hosts() {
        check("", &["the policy is empty"]);
        check("domains: ['*']", &["`*` allows every host"]);
        check("domains: ['*.*']", &["allows every host"]);
        check("url_prefixes: [{host: '*', path: /x}]", &["`*` allows this path on every host"]);
        check("domains: ['*.com']", &["top-level"]);
        check("domains: ['*example.com']", &["evilexample.com"]);
        check("domains: ['example.*']", &["example.x.evil.example"]);
        check("domains: ['10.0.0.*']", &["never matches an IPv4 address"]);
    }

    #[test]
    fn deny_rules() {
        check(
            "domains: ['*.a.example']\ndeny: [x.a.example, {host: y.a.example, path: '/x*', methods: [POST]}]",
            &[],
        );
        check("domains: [a.b, c.d]\ndeny: ['*.b']", &["`deny[0]` forbids all of this"]);
        check("domains: [c.d]\ndeny: ['10.0.0.*']", &[]);
        check("domains: [c.d]\ndeny: [{host: a.b, path: '/a%20b'}]", &[]);
        // Without the entry with `git`, other pushes to the host would be allowed.
        check("url_prefixes: [{host: a.b, path: /me/app, git: {}}]\ndeny: [{host: a.b, path: '/me/*'}]", &[]);
        check(
            "domains: [c.d]\ndeny: [{host: a.b, path: /x/}, {host: a.b, path: '/x?a=*'}, {host: a.b, methods: [GTE]}]",
            &["`[?]`", "GTE is not a registered HTTP method"],
        );
    }

    #[test]
    fn paths_and_methods() {
        check("url_prefixes: [{host: a.b, path: /}]", &["`/*` for everything below"]);
        check("url_prefixes: [{host: a.b, path: /x/}]", &["`/x/*`"]);
        check("url_prefixes: [{host: a.b, path: '/a%20b'}]", &["decoded path"]);
        check("url_prefixes: [{host: a.b, path: '/a%3fb'}]", &["upper case"]);
        check("url_prefixes: [{host: a.b, path: '/a?b=*'}]", &["`[?]`"]);
        check("url_prefixes: [{host: a.b, methods: [trace]}]", &["TRACE is never allowed"]);
        check(
            "url_prefixes: [{host: a.b, path: /x, methods: [GTE]}]",
            &["GTE is not a registered HTTP method"],
        );
        check("url_prefixes: [{host: a.b, path: /x, methods: [propfind, GET]}]", &[]);
    }

    #[test]
    fn index_agrees_with_a_linear_search() {
        let texts = ["a.b", "*.b", "x.a.b", "a.b", "*.a.b", "*", "10.0.0.1", "*.b", "?.b", "10.*", "[ab].b"];
        let hosts: Vec<HostPattern> = texts.iter().map(|text| HostPattern::new(text).unwrap()).collect();
        let index = HostIndex::new(hosts.iter());
        for host in &hosts {
            for first in 0..hosts.len() {
                let counts = |place: usize, _: &HostPattern| place >= first;
                let mut every = hosts.iter().enumerate().skip(first);
                let expected = every.find(|(_, wide)| covers_host(wide, host));
                assert_eq!(index.first_covering(host, counts), expected, "{host}, from {first}");
            }
        }
    }

    #[test]
    fn repository_of_an_entirely_allowed_host_has_a_warning() {
        check(
            "url_prefixes: [{host: a.b, path: /r.git, git: {push: [refs/heads/x]}}, {host: a.b, path: /r.git, git: {}}]",
            &[],
        );
        check(
            "domains: [a.b]\nurl_prefixes: [{host: a.b, path: /r, git: {}}]",
            &["`domains`, allows all of `a.b`"],
        );
        check(
            "url_prefixes: [{host: a.b.c, path: /r, git: {}}, {host: '*.b.c'}]",
            &["`url_prefixes`, allows all of `a.b.c`"],
        );
        check("url_prefixes: [{host: a.b, path: /r, git: {}}, {host: a.b, path: /r, git: {}}]", &["already"]);
    }

    #[test]
    fn shadowed_rules() {
        check("domains: [a.b, A.B]", &["`a.b` is covered by `a.b` already"]);
        check("domains: [x.a.b, '*.a.b']", &["`x.a.b` is covered by `*.a.b` already"]);
        check("domains: ['*.x.a.b', '*.a.b']", &["`*.x.a.b` is covered"]);
        check("domains: ['*.a.b']\nurl_prefixes: [{host: x.a.b, path: /y}]", &["restrict nothing"]);
        check("domains: [10.0.0.1]\nurl_prefixes: [{host: '*.a.b', path: /y}]", &[]);
        check(
            "url_prefixes: [{host: a.b, path: '/x*'}, {host: a.b, path: /x/y}]",
            &["the rule for `a.b/x*` before it"],
        );
        check(
            "url_prefixes: [{host: a.b, methods: [GET]}, {host: a.b, path: /x, methods: [get]}]",
            &["already"],
        );
        check("domains: [a.b]\nvendor_tools: {web_search: policy, denied: refuse}", &[]);
        check(
            "domains: [a.b]\nvendor_tools: {web_search: any, code_execution: any}",
            &["allow: write `policy`", "allow: leave it out"],
        );
        check("url_prefixes: [{host: a.b, methods: [GET]}, {host: a.b, path: /x}]", &[]);
    }
}
