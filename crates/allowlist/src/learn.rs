//! Rules derived from recorded requests.
//!
//! A rule covers exactly its requests, or names the step by which it was generalised: requests
//! without a body, to hosts where that is harmless, are merged by folder or by host.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::authority::Authority;
use crate::decision::Decision;
use crate::denial::Denial;
use crate::git::Service;
use crate::git::could_push;
use crate::host_pattern::HostPattern;
use crate::method::RuleMethod;
use crate::pattern::Pattern;
use crate::policy::Allowlist;
use crate::preset::Preset;
use crate::request::Request;
use crate::rule::Rule;
use crate::rule::UrlRule;
use crate::rule_overlap::hosts_may_meet;
use crate::url::AbsoluteUrl;

pub use doubt::Doubt;

mod doubt;

/// Minimum number of paths and repositories for which a preset is proposed.
const OF_PRESET: usize = 2;
/// Maximum number of paths of a host with rules of their own; more are merged by folder.
const OWN_RULES: usize = 3;
/// Up to this number, paths are not merged if their only common folder is that of the whole host.
const WITHOUT_FOLDER: usize = 6;
/// Folders below this depth count as one.
const DEEPEST: usize = 16;
/// Above this number, paths of a host are merged by their topmost folders only.
const TAKEN_APART: usize = 1000;
const TOP_FOLDER: usize = 2;
/// Maximum number of queries of one path with rules of their own.
const OWN_QUERIES: usize = 2;
/// Names of cloud metadata services, which have the machine's credentials; the others end in
/// `.internal`.
const METADATA: [&str; 4] = ["metadata", "metadata.goog", "metadata.tencentyun.com", "instance-data"];

/// A recorded request, with the number of its repetitions.
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
    /// Whether its host answered; otherwise its address is unknown.
    pub answered: bool,
}

/// The learnt presets and rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// Presets that allow at least two paths which the policy lacks.
    pub presets: Vec<LearntPreset>,
    /// Rules that the policy lacks, sorted by host.
    pub rules: Vec<LearntRule>,
    /// Requests that no rule is generated for.
    pub left_out: Vec<(Asked, LeftOut)>,
}

/// A preset and the requests that it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearntPreset {
    /// It allows more than these requests.
    pub preset: Preset,
    /// Number of requests that it allows.
    pub requests: u64,
    /// Number of those that were refused.
    pub blocked: u64,
    /// Number of their paths and repositories.
    pub paths: usize,
}

/// A rule and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearntRule {
    /// An entry of `url_prefixes`.
    pub rule: Rule,
    /// Number of requests that it allows.
    pub requests: u64,
    /// Number of those that were refused.
    pub blocked: u64,
    /// How far it goes beyond these requests.
    pub step: LearnStep,
    /// Number of paths, including queries, that it was generalised from; 1 for an exact rule.
    pub paths: usize,
}

/// How far a learnt rule goes beyond the recorded requests; each step includes the earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LearnStep {
    /// Not at all: the same methods, paths and queries.
    #[default]
    Exact,
    /// All queries of a path that had more than two.
    Query,
    /// All paths of a folder, for reading, if their host had more than three.
    Folder,
    /// All paths of a host, for reading: GET and HEAD.
    Host,
}

impl LearnStep {
    /// The step as a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Query => "query",
            Self::Folder => "folder",
            Self::Host => "host",
        }
    }
}

/// The reason why no rule is generated for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftOut {
    /// No rule could allow it.
    NeverAllowed,
    /// Its host is an address that did not answer, or a metadata service.
    Address,
    /// An outer policy refuses it.
    OuterPolicy,
    /// A rule of `deny` forbids it.
    Denied,
    /// It may be a push, which needs a `git` entry with the refs that it may update.
    Push,
    /// It is not refused for lack of a rule but for another reason: its body, a vendor tool, a
    /// `git` entry.
    OtherReason,
}

impl LeftOut {
    /// The reason as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverAllowed => "no rule can allow it",
            Self::Address => "an address or a metadata service",
            Self::OuterPolicy => "a policy outside of this one refuses it",
            Self::Denied => "a rule of `deny` forbids it",
            Self::Push => "it may be a push: write a `git` entry",
            Self::OtherReason => "refused for another reason than the lack of a rule",
        }
    }
}

impl Allowlist {
    /// [`learn_up_to`](Self::learn_up_to) folders.
    #[must_use]
    pub fn learn(&self, asked: impl IntoIterator<Item = Asked>, narrow: &[HostPattern]) -> Learnt {
        self.learn_up_to(LearnStep::Folder, asked, narrow)
    }

    /// The rules that this policy lacks to allow these requests, generalised at most by `most`; except
    /// for [`LearnStep::Exact`], presets take the place of rules.
    /// Requests to `narrow` hosts and to APIs of models, and those with a body, keep their paths:
    /// only their queries are generalised.
    #[must_use]
    pub fn learn_up_to(
        &self,
        most: LearnStep,
        asked: impl IntoIterator<Item = Asked>,
        narrow: &[HostPattern],
    ) -> Learnt {
        let mut learnt = Learnt::default();
        let mut lacking = Vec::new();
        for asked in asked {
            match self.lacking(&asked) {
                Ok(Some(request)) => lacking.push((asked, request)),
                Ok(None) => {}
                Err(why) => learnt.left_out.push((asked, why)),
            }
        }
        if most > LearnStep::Exact {
            learnt.presets = self.take_presets(&mut lacking, narrow);
        }
        let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
        for (asked, request) in lacking {
            let is_narrow = narrow.iter().any(|pattern| pattern.matches(request.host()))
                || self.vendor_tools().concerns(request.host());
            let host = hosts.entry(request.host().to_string()).or_default();
            let reads = matches!(request.method().as_str(), "GET" | "HEAD");
            let paths = if reads && !is_narrow { &mut host.read } else { &mut host.exact };
            let path = paths.entry(request.target().for_matching().to_owned()).or_default();
            path.methods.insert(request.method().as_str().to_ascii_uppercase());
            path.requests = path.requests.saturating_add(asked.count);
            path.blocked = path.blocked.saturating_add(if asked.blocked { asked.count } else { 0 });
        }
        learnt.rules = hosts.into_iter().flat_map(|(host, paths)| paths.rules(&host, most)).collect();
        learnt
    }

    /// The presets that allow at least two paths or repositories of these requests, which they take;
    /// none for `narrow` hosts, except for APIs of models.
    fn take_presets(&self, lacking: &mut Vec<(Asked, Request)>, narrow: &[HostPattern]) -> Vec<LearntPreset> {
        let mut taken = Vec::new();
        for preset in Preset::all() {
            let alone = Self::default().with_presets([preset]).with_vendor_tools(self.vendor_tools().clone());
            let (by_preset, others): (Vec<_>, Vec<_>) = std::mem::take(lacking)
                .into_iter()
                .partition(|(_, request)| !matches!(alone.decide(request), Decision::Deny(_)));
            *lacking = others;
            let path = |request: &Request| match Service::of(request) {
                Some((_, repository)) => (request.host().to_string(), repository.to_owned()),
                None => (request.host().to_string(), request.target().path().to_owned()),
            };
            let paths: BTreeSet<_> = by_preset.iter().map(|(_, request)| path(request)).collect();
            let paths = paths.len();
            // A preset can name more hosts than the requests.
            let is_narrow = |rule: &Rule| narrow.iter().any(|scope| hosts_may_meet(scope, rule.host()));
            let is_of_model =
                by_preset.iter().all(|(_, request)| self.vendor_tools().concerns(request.host()));
            if paths < OF_PRESET || !is_of_model && preset.rules().iter().any(is_narrow) {
                lacking.extend(by_preset);
                continue;
            }
            let count = |of: fn(&Asked) -> bool| {
                let counts = by_preset.iter().filter(|(asked, _)| of(asked)).map(|(asked, _)| asked.count);
                counts.fold(0, u64::saturating_add)
            };
            taken.push(LearntPreset {
                preset,
                requests: count(|_| true),
                blocked: count(|asked| asked.blocked),
                paths,
            });
        }
        taken
    }

    /// The request, if it only lacks a rule for its path.
    fn lacking(&self, asked: &Asked) -> Result<Option<Request>, LeftOut> {
        let request = read(asked).ok_or(LeftOut::NeverAllowed)?;
        let lacks = self.missing_rule(&request, asked.answered)?.is_some();
        Ok(lacks.then_some(request))
    }

    /// The rule for this path and method that `request` lacks; `None` if it is not denied. An
    /// address instead of a host name is considered private unless it `answered`.
    ///
    /// # Errors
    ///
    /// If it is refused for another reason than the lack of a rule, or no rule is generated for
    /// such a request.
    pub fn missing_rule(&self, request: &Request, answered: bool) -> Result<Option<Rule>, LeftOut> {
        if !matches!(self.decide(request), Decision::Deny(_)) {
            return Ok(None);
        }
        let host = request.host();
        if (host.is_ipv4().is_some() && !answered) || is_metadata(host.as_str()) {
            return Err(LeftOut::Address);
        }
        if self.refused_outside(request).is_some() {
            return Err(LeftOut::OuterPolicy);
        }
        if self.denies(request).is_some() {
            return Err(LeftOut::Denied);
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
        // Without the policy's own rules, which do not allow it.
        let alone = Self::new([rule.clone()]).with_vendor_tools(self.vendor_tools().clone());
        match alone.decide(request) {
            Decision::Deny(_) => Err(LeftOut::OtherReason),
            Decision::Allow(_) | Decision::NeedsBody(_) => Ok(Some(rule)),
        }
    }
}

impl Rule {
    /// Rules of `deny` that cover this request, the narrowest first: its path in the plainest
    /// reading, with any query, and its host.
    ///
    /// # Errors
    ///
    /// The denial of a request that every policy refuses.
    pub fn denying(method: &str, url: &str) -> Result<Vec<Self>, Denial> {
        let request = crate::judge::read(method, url.as_bytes())?;
        let host = request.host().as_str();
        let path = request.target().readings().pop().unwrap_or_default();
        let path = Pattern::escape(if path.is_empty() { "/" } else { &path });
        let exact = UrlRule::new(host, &path, [method]).ok().map(Self::Url);
        let exact = exact.filter(|rule| Allowlist::default().denying(rule).denies(&request).is_some());
        let whole = HostPattern::new(host).ok().map(Self::Domain);
        Ok(exact.into_iter().chain(whole).collect())
    }

    /// The rule for reading everything below `url`, which an untrusted program named: GET and HEAD,
    /// without a query.
    ///
    /// # Errors
    ///
    /// If `url` is not `http` or `https`, has credentials, a port or a query, or its host is not a
    /// name with a dot, or is one of this machine or of a metadata service.
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

/// The requests to a host, by path and query.
#[derive(Default)]
struct Host {
    /// Requests that may be generalised.
    read: BTreeMap<String, Path>,
    exact: BTreeMap<String, Path>,
}

#[derive(Clone, Default)]
struct Path {
    methods: BTreeSet<String>,
    requests: u64,
    blocked: u64,
    /// How it represents several.
    step: LearnStep,
    /// Number of paths that it represents; 0 for itself alone.
    covers: usize,
}

impl Path {
    fn add(&mut self, other: Self, step: LearnStep) {
        self.step = step;
        self.methods.extend(other.methods);
        self.requests += other.requests;
        self.blocked += other.blocked;
        self.covers += other.covers.max(1);
    }
}

impl Host {
    fn rules(self, host: &str, most: LearnStep) -> Vec<LearntRule> {
        let mut read = Patterns::of(self.read, most);
        match most {
            LearnStep::Exact | LearnStep::Query => {}
            LearnStep::Folder => read.merge_folders(),
            LearnStep::Host => read.merge_all(),
        }
        let patterns = read.0.into_iter().chain(Patterns::of(self.exact, most).0);
        let rule = |(pattern, path): (String, Path)| {
            let methods = path.methods.iter().map(String::as_str);
            // Its parts were checked one by one.
            let rule = UrlRule::new(host, &pattern, methods).ok()?;
            let Path { requests, blocked, step, covers, .. } = path;
            Some(LearntRule { rule: Rule::Url(rule), requests, blocked, step, paths: covers.max(1) })
        };
        patterns.filter_map(rule).collect()
    }
}

/// Path patterns, none of which covers another.
struct Patterns(BTreeMap<String, Path>);

impl Patterns {
    /// One for each path; if a path has many queries and `most` permits it, one for all of these.
    fn of(paths: BTreeMap<String, Path>, most: LearnStep) -> Self {
        let bare = |text: &str| {
            let (path, _) = text.split_once('?').filter(|_| most >= LearnStep::Query)?;
            Some(path.to_owned())
        };
        let mut queries: BTreeMap<String, usize> = BTreeMap::new();
        for path in paths.keys().filter_map(|text| bare(text)) {
            *queries.entry(path).or_default() += 1;
        }
        let mut patterns = BTreeMap::<String, Path>::new();
        for (text, path) in paths {
            match bare(&text).filter(|bare| queries.get(bare).is_some_and(|count| *count > OWN_QUERIES)) {
                Some(bare) => {
                    patterns.entry(Pattern::escape(&bare) + "[?]*").or_default().add(path, LearnStep::Query);
                }
                None => drop(patterns.insert(Pattern::escape(&text), path)),
            }
        }
        Self(patterns)
    }

    /// Merges those of one folder until few are left, starting with the deepest folders, and at
    /// equal depth with the largest.
    fn merge_folders(&mut self) {
        let deepest = if self.0.len() > TAKEN_APART { TOP_FOLDER } else { DEEPEST };
        for depth in (1..=deepest).rev() {
            // Folders of one depth are disjoint: merging in one does not affect another.
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
                    Some(whole) => self.0.entry(whole).or_default().add(path, LearnStep::Folder),
                    None => drop(self.0.insert(pattern, path)),
                }
            }
        }
    }

    /// Replaces all by one for reading the whole host.
    fn merge_all(&mut self) {
        for (_, path) in std::mem::take(&mut self.0) {
            let whole = self.0.entry("/*".to_owned()).or_default();
            whole.add(path, LearnStep::Host);
            whole.methods.extend(["GET", "HEAD"].map(str::to_owned));
        }
    }
}

/// The folder of a pattern at a depth, with its slash; that of the host has depth 1. Slashes in a
/// query do not count.
fn folder_of(pattern: &str, depth: usize) -> Option<&str> {
    let path = pattern.split("[?]").next().unwrap_or_default();
    path.match_indices('/').nth(depth - 1).and_then(|(at, _)| path.get(..=at))
}

#[cfg(test)]
mod tests;
