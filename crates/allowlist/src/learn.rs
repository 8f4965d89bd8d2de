//! From what was asked to the rules that allow it.
//!
//! A rule stands for itself, or says that it was generalised: requests without a body, to hosts
//! where that is harmless, are put together by the folder of their paths where there are many.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::authority::Authority;
use crate::decision::Decision;
use crate::git::could_push;
use crate::host_pattern::HostPattern;
use crate::method::RuleMethod;
use crate::pattern::Pattern;
use crate::policy::Allowlist;
use crate::request::Request;
use crate::rule::Rule;
use crate::rule::UrlRule;
use crate::url::AbsoluteUrl;

/// So many paths of a host have rules of their own; more are put together by their folders.
const OWN_RULES: usize = 3;
/// So many are not put together where they have no folder in common but that of the whole host.
const WITHOUT_FOLDER: usize = 6;
/// Folders below this depth count as one.
const DEEPEST: usize = 16;
/// More paths of a host are put together by their topmost folders only.
const TAKEN_APART: usize = 1000;
const TOP_FOLDER: usize = 2;
/// So many queries of one path have rules of their own.
const OWN_QUERIES: usize = 2;
/// Names under which clouds have the metadata of a machine, with its credentials; the others end in
/// `.internal`.
const METADATA: [&str; 4] = ["metadata", "metadata.goog", "metadata.tencentyun.com", "instance-data"];

/// A request that was made, perhaps more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// As it was sent.
    pub method: String,
    /// As it was sent, in full.
    pub url: String,
    /// How often.
    pub count: u64,
    /// Whether it was refused.
    pub blocked: bool,
    /// Whether its host answered; else it is not known where that leads.
    pub answered: bool,
}

/// What was learnt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// Rules that a policy lacks, sorted by host.
    pub rules: Vec<LearntRule>,
    /// What no rule is made for.
    pub left_out: Vec<(Asked, LeftOut)>,
}

/// A rule, and what it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearntRule {
    /// An entry of `url_prefixes`.
    pub rule: Rule,
    /// Requests that it allows.
    pub requests: u64,
    /// How many of them had been refused.
    pub blocked: u64,
    /// Where it allows more than was asked for: from how many paths, queries included, it was made.
    pub generalised_from: Option<usize>,
}

/// Why no rule is made for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftOut {
    /// No rule could allow it.
    NeverAllowed,
    /// Its host is an address and did not answer, or is a name of a machine's metadata.
    Address,
    /// It may be a push, of which a `git` entry says which refs it may update.
    Push,
    /// Something else than a rule for its path refuses it: its body, a vendor's tool, a `git`
    /// entry.
    OtherReason,
}

impl LeftOut {
    /// In words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverAllowed => "no rule can allow it",
            Self::Address => "an address or a name of a machine's metadata",
            Self::Push => "it may be a push: write a `git` entry",
            Self::OtherReason => "something else than the lack of a rule refuses it",
        }
    }
}

impl Allowlist {
    /// The rules that this policy lacks to allow what was asked. Requests to `narrow` hosts, and
    /// those with a body, keep their paths.
    ///
    /// A rule allows what was asked and nothing else, unless it says from how many paths it was
    /// generalised.
    #[must_use]
    pub fn learn(&self, asked: impl IntoIterator<Item = Asked>, narrow: &[HostPattern]) -> Learnt {
        let mut learnt = Learnt::default();
        let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
        for asked in asked {
            let request = match self.lacking(&asked) {
                Ok(Some(request)) => request,
                Ok(None) => continue,
                Err(why) => {
                    learnt.left_out.push((asked, why));
                    continue;
                }
            };
            let is_narrow = narrow.iter().any(|pattern| pattern.matches(request.host()))
                || self.vendor_tools().concerns(request.host());
            let host = hosts.entry(request.host().to_string()).or_default();
            let reads = matches!(request.method().as_str(), "GET" | "HEAD");
            let paths = if reads && !is_narrow { &mut host.read } else { &mut host.exact };
            let path = paths.entry(request.target().for_matching().to_owned()).or_default();
            path.methods.insert(request.method().as_str().to_ascii_uppercase());
            path.requests += asked.count;
            path.blocked += if asked.blocked { asked.count } else { 0 };
        }
        learnt.rules = hosts.into_iter().flat_map(|(host, paths)| paths.rules(&host)).collect();
        learnt
    }

    /// The request, if a rule for its path is what it lacks.
    fn lacking(&self, asked: &Asked) -> Result<Option<Request>, LeftOut> {
        let request = read(asked).ok_or(LeftOut::NeverAllowed)?;
        let lacks = self.missing_rule(&request, asked.answered)?.is_some();
        Ok(lacks.then_some(request))
    }

    /// The rule for this path and method that `request` lacks to be allowed; `None` where it is not
    /// denied. An address in the place of a host's name is taken for a private one unless it
    /// `answered`.
    ///
    /// # Errors
    ///
    /// When something else than the lack of a rule refuses it, or no rule is made for such a
    /// request.
    pub fn missing_rule(&self, request: &Request, answered: bool) -> Result<Option<Rule>, LeftOut> {
        if !matches!(self.decide(request), Decision::Deny(_)) {
            return Ok(None);
        }
        let host = request.host();
        if (host.is_ipv4().is_some() && !answered) || is_metadata(host.as_str()) {
            return Err(LeftOut::Address);
        }
        if could_push(request.target()) {
            return Err(LeftOut::Push);
        }
        let exact = UrlRule::new(
            host.as_str(),
            &Pattern::escape(request.target().for_matching()),
            [request.method().as_str()],
        );
        let rule = Rule::Url(exact.map_err(|_| LeftOut::NeverAllowed)?);
        // The policy's own rules do not allow it.
        let alone = Self::new([rule.clone()]).with_vendor_tools(self.vendor_tools().clone());
        match alone.decide(request) {
            Decision::Deny(_) => Err(LeftOut::OtherReason),
            Decision::Allow(_) | Decision::NeedsBody(_) => Ok(Some(rule)),
        }
    }
}

impl Rule {
    /// The rule to read all that lies below `url`, which an untrusted program named: GET and HEAD,
    /// and no query of its own.
    ///
    /// # Errors
    ///
    /// Whatever is not an `http` or `https` URL without credentials, port and query, whose host is
    /// a name with a dot, and none of this machine or of a machine's metadata.
    pub fn reading_below(url: &str) -> Result<Self, LeftOut> {
        let parts = AbsoluteUrl::split(url.as_bytes()).ok_or(LeftOut::NeverAllowed)?;
        let authority = Authority::from_wire(parts.authority()).map_err(|_| LeftOut::NeverAllowed)?;
        let request = Request::read(parts.scheme(), authority, b"GET", &parts.target());
        let request = request.map_err(|_| LeftOut::NeverAllowed)?;
        let (host, target) = (request.host(), request.target().for_matching());
        if host.is_ipv4().is_some() || is_metadata(host.as_str()) {
            return Err(LeftOut::Address);
        }
        if target.contains('?') || host.is_loopback() || !host.as_str().contains('.') {
            return Err(LeftOut::NeverAllowed);
        }
        let folder = Pattern::escape(target.trim_end_matches('/')) + "/*";
        let rule = UrlRule::new(host.as_str(), &folder, ["GET", "HEAD"]);
        rule.map(Self::Url).map_err(|_| LeftOut::NeverAllowed)
    }
}

fn is_metadata(host: &str) -> bool {
    METADATA.contains(&host) || host.ends_with(".internal")
}

fn read(asked: &Asked) -> Option<Request> {
    let url = AbsoluteUrl::split(asked.url.as_bytes())?;
    RuleMethod::new(&asked.method).ok()?;
    let authority = Authority::from_wire(url.authority()).ok()?;
    Request::read(url.scheme(), authority, asked.method.as_bytes(), &url.target()).ok()
}

/// What was asked of a host, by path and query.
#[derive(Default)]
struct Host {
    /// What may be generalised.
    read: BTreeMap<String, Path>,
    exact: BTreeMap<String, Path>,
}

#[derive(Clone, Default)]
struct Path {
    methods: BTreeSet<String>,
    requests: u64,
    blocked: u64,
    /// Paths that it stands for.
    covers: usize,
}

impl Path {
    fn add(&mut self, other: Self) {
        self.methods.extend(other.methods);
        self.requests += other.requests;
        self.blocked += other.blocked;
        self.covers += other.covers.max(1);
    }
}

impl Host {
    fn rules(self, host: &str) -> Vec<LearntRule> {
        let mut read = Patterns::of(self.read);
        read.put_folders_together();
        let patterns = read.0.into_iter().chain(Patterns::of(self.exact).0);
        let rule = |(pattern, path): (String, Path)| {
            let methods = path.methods.iter().map(String::as_str);
            // Its parts were checked one by one.
            let rule = UrlRule::new(host, &pattern, methods).ok()?;
            let generalised_from = (path.covers > 0).then_some(path.covers);
            let Path { requests, blocked, .. } = path;
            Some(LearntRule { rule: Rule::Url(rule), requests, blocked, generalised_from })
        };
        patterns.filter_map(rule).collect()
    }
}

/// Patterns of paths, none of which covers another.
struct Patterns(BTreeMap<String, Path>);

impl Patterns {
    /// One for each path; where a path has many queries, one for all of these.
    fn of(paths: BTreeMap<String, Path>) -> Self {
        let bare = |text: &str| text.split_once('?').map(|(path, _)| path.to_owned());
        let mut queries: BTreeMap<String, usize> = BTreeMap::new();
        for path in paths.keys().filter_map(|text| bare(text)) {
            *queries.entry(path).or_default() += 1;
        }
        let mut patterns = BTreeMap::<String, Path>::new();
        for (text, path) in paths {
            match bare(&text).filter(|bare| queries.get(bare).is_some_and(|count| *count > OWN_QUERIES)) {
                Some(bare) => patterns.entry(Pattern::escape(&bare) + "[?]*").or_default().add(path),
                None => drop(patterns.insert(Pattern::escape(&text), path)),
            }
        }
        Self(patterns)
    }

    /// Puts those in one folder together, the deepest first and those with most before the others
    /// of their depth, until there are few.
    fn put_folders_together(&mut self) {
        let deepest = if self.0.len() > TAKEN_APART { TOP_FOLDER } else { DEEPEST };
        for depth in (1..=deepest).rev() {
            // Folders of one depth have nothing in common: what is put together in one changes no
            // other.
            let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
            for folder in self.0.keys().filter_map(|pattern| folder_of(pattern, depth)) {
                *folders.entry(folder).or_default() += 1;
            }
            let mut left = self.0.len();
            if depth == 1 && left <= WITHOUT_FOLDER {
                return;
            }
            let mut shared: Vec<_> = folders.into_iter().filter(|(_, patterns)| *patterns > 1).collect();
            shared.sort_by_key(|(folder, patterns)| Reverse((*patterns, *folder)));
            let mut together = BTreeSet::new();
            for (folder, patterns) in shared {
                if left <= OWN_RULES {
                    break;
                }
                left -= patterns - 1;
                together.insert(folder.to_owned());
            }
            for (pattern, path) in std::mem::take(&mut self.0) {
                let folder = folder_of(&pattern, depth).filter(|folder| together.contains(*folder));
                match folder.map(|folder| format!("{folder}*")) {
                    Some(whole) => self.0.entry(whole).or_default().add(path),
                    None => drop(self.0.insert(pattern, path)),
                }
            }
        }
    }
}

/// The folder above a pattern at a depth, with its slash; that of the host has depth 1. A slash in
/// a query makes none.
fn folder_of(pattern: &str, depth: usize) -> Option<&str> {
    let path = pattern.split("[?]").next().unwrap_or_default();
    path.match_indices('/').nth(depth - 1).and_then(|(at, _)| path.get(..=at))
}

#[cfg(test)]
mod tests;
