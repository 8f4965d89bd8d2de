//! The requests to one host, one for each combination of rules.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;

use super::bodies;
use super::comparison::Doubtful;
use super::comparison::Example;
use super::comparison::ExampleBody;
use super::findings::Findings;
use super::languages::Targets;
use super::side::Part;
use crate::authority::Authority;
use crate::decision::Decision;
use crate::git::could_push;
use crate::host::HostName;
use crate::method::Method;
use crate::method::RuleMethod;
use crate::path_pattern::PathPattern;
use crate::pattern::Product;
use crate::pattern::Scope;
use crate::pattern::Sequence;
use crate::request::Request;
use crate::rule::Allowed;
use crate::rule::Reach;
use crate::rule::Rule;
use crate::rule::UrlRule;
use crate::scheme::Scheme;
use crate::vendor::query_has_key;

/// How many requests of a combination are tried.
const TRIES: u8 = 4;
/// The end of a path after that of its repository.
const SERVICES: [(&str, Scope); 3] =
    [("/info/refs", Scope::Path), ("/git-upload-pack", Scope::Plain), ("/git-receive-pack", Scope::Plain)];
/// Paths and queries of some pushes.
const PUSHES: [(&str, Scope); 3] = [
    ("*/git-receive-pack", Scope::Path),
    ("*/git-receive-pack/*", Scope::Path),
    ("service=git-receive-pack", Scope::Query),
];
/// Minimum number of characters of a target that could push.
const PUSH_LENGTH: usize = 17;
/// A query with a key.
const KEY: &str = "key=";
/// Some endpoints of vendors at which requests are not refused.
const ENDPOINTS: [&str; 4] = ["*/v1/messages", "*/v1/responses", "*/codex/responses", "*:generateContent"];

pub(super) struct Site<'s, 'a> {
    findings: &'s mut Findings<'a>,
    host: HostName,
    active: [Vec<usize>; 2],
    parts: [Part; 2],
    /// The size of the rules.
    weight: usize,
    /// Whether rules of each policy judge pushes separately.
    restricts: [bool; 2],
    /// Whether they may do so differently.
    has_pushes: bool,
    /// Whether rules refuse queries with keys.
    has_keys: bool,
    /// The rules of which one alone can decide differently.
    candidates: Vec<(usize, usize)>,
    /// The method of the requests.
    method: Method,
    bodies: Vec<ExampleBody>,
}

/// The side and the rule that allow a request which the other side does not, with the body if that
/// decides.
type Found = (usize, usize, Option<ExampleBody>);

/// The result of trying a text.
enum Tried {
    Decided,
    /// Only for rules of `deny` or of vendors nothing differs.
    Refused,
    /// It is not a valid target.
    Invalid,
}

impl<'s, 'a> Site<'s, 'a> {
    /// `None` if nothing is left to be found there.
    pub(super) fn new(
        findings: &'s mut Findings<'a>,
        host: &HostName,
        active: [Vec<usize>; 2],
        method: &Method,
    ) -> Option<Self> {
        let [old, new] = &findings.sides;
        let [old_active, new_active] = &active;
        let restricts = [old.restricts_pushes(old_active), new.restricts_pushes(new_active)];
        let (candidates, has_pushes) = candidates(findings, &active, restricts, method);
        if findings.has_all(&candidates) {
            return None;
        }
        let parts = [old.part(host, old_active), new.part(host, new_active)];
        let both = findings.sides.iter().zip(&active);
        let weight = both.flat_map(|(side, active)| active.iter().map(|at| side.weight(*at))).sum();
        let has_presets = parts.iter().any(|part| !part.whole.presets().is_empty());
        let has_keys = has_presets && host.as_str().ends_with("googleapis.com");
        Some(Self {
            findings,
            host: host.clone(),
            active,
            parts,
            weight,
            restricts,
            has_pushes,
            has_keys,
            candidates,
            method: method.clone(),
            bodies: Vec::new(),
        })
    }

    /// The rules for URLs, with their side and position.
    fn rules(&self) -> impl Iterator<Item = (usize, usize, &'a UrlRule)> {
        let positions = self.active.iter().enumerate();
        let positions = positions.flat_map(|(side, active)| active.iter().map(move |at| (side, *at)));
        positions
            .filter_map(|(side, at)| Some((side, at, self.findings.sides.get(side)?.rule(at)?.as_url()?)))
    }

    fn is_done(&self) -> bool {
        self.findings.has_all(&self.candidates)
    }

    /// All that decisions compare a target with, and whether it belongs to a candidate.
    fn patterns(&self) -> Vec<((Sequence, Scope), bool)> {
        let mut patterns = Vec::new();
        let mut add = |text: &str, scope| patterns.push(((Sequence::compile(text), scope), false));
        let services = services(&self.method);
        if self.has_pushes {
            for (text, scope) in PUSHES {
                add(text, scope);
            }
        }
        if self.has_keys {
            add(KEY, Scope::Query);
        }
        let is_of_vendor = |part: &Part| part.whole.vendor_tools().concerns(&self.host);
        if self.parts.iter().any(is_of_vendor) {
            for endpoint in ENDPOINTS {
                add(endpoint, Scope::Path);
            }
        }
        if self.rules().any(|(_, _, rule)| rule.git().is_some()) {
            if self.method.as_str() == "GET" {
                add("service=git-upload-pack", Scope::Query);
                add("service=git-receive-pack", Scope::Query);
            }
            for (service, scope) in services {
                for before in ["", "*.git", "*.git.git"] {
                    add(&format!("{before}{service}"), *scope);
                }
            }
        }
        for (side, at, rule) in self.rules() {
            let is_candidate = self.candidates.contains(&(side, at));
            let Some(side) = self.findings.sides.get(side) else { continue };
            let path = rule.path();
            let mut add = |sequence, scope| patterns.push(((sequence, scope), is_candidate));
            if side.is_of_deny(at) {
                add(Sequence::compile("*//*"), Scope::Path);
                for path in plain_forms(path) {
                    let whole = Sequence::of(path.pattern());
                    add(whole.then("/"), Scope::Path);
                    add(whole.clone(), Scope::Whole);
                    add(whole, Scope::Path);
                }
            } else if rule.git().is_some() {
                let any = path.as_str().is_empty().then(|| Sequence::compile("*"));
                let path = any.unwrap_or_else(|| Sequence::of(path.pattern()));
                for repository in path.before(".git").into_iter().chain([path.then(".git"), path]) {
                    for (service, scope) in services {
                        add(repository.then(service), *scope);
                    }
                }
            } else if side.is_of_preset(at) {
                let (path, query) = path.as_str().split_once("[?]").unwrap_or((path.as_str(), "*"));
                add(Sequence::compile(if path.is_empty() { "*" } else { path }), Scope::Path);
                add(Sequence::compile(query), Scope::Query);
            } else {
                let path = if path.as_str().is_empty() { "*" } else { path.as_str() };
                add(Sequence::compile(path), Scope::Whole);
            }
        }
        let mut places: HashMap<(Sequence, Scope), usize> = HashMap::new();
        let mut merged: Vec<((Sequence, Scope), bool)> = Vec::new();
        for (pattern, is_candidate) in patterns {
            let at = *places.entry(pattern.clone()).or_insert(merged.len());
            match merged.get_mut(at) {
                Some((_, known)) => *known |= is_candidate,
                None => merged.push((pattern, is_candidate)),
            }
        }
        merged
    }

    pub(super) fn search(mut self) {
        if self.rules().next().is_none() {
            // Only the host decides, and for a method of which vendors refuse no endpoint.
            self.combination("/");
            return;
        }
        let git: Vec<_> = self.rules().filter_map(|(_, _, rule)| rule.git()).collect();
        if git.iter().any(|git| !git.push.is_empty()) {
            self.bodies = bodies::of(git.into_iter(), &self.findings.effort);
        }
        let (patterns, are_of_candidates): (Vec<_>, Vec<bool>) = self.patterns().into_iter().unzip();
        let effort = self.findings.effort.clone();
        if !effort.spend(Product::cost(&patterns) + 1000) {
            return;
        }
        // What targets and their decoding distinguish.
        let ranges = [('\0', '\x1f'), (' ', ' '), ('\x7f', '\x7f'), ('\u{80}', '\u{9f}')];
        let single = ['/', '.', ';', '#', '?', '\\', '%'].map(|character| (character, character));
        let product = Product::new(&patterns, ranges.into_iter().chain(single));
        let needed = product.bits_of(&patterns, |index| are_of_candidates.get(index) == Some(&true));
        // A rule for whole hosts, or a restriction of pushes, has no patterns of its own.
        let has_pattern = |(side, at): &(usize, usize)| {
            self.findings.sides.get(*side).and_then(|side| side.rule(*at)?.as_url()).is_some()
        };
        let is_limited = self.candidates.iter().all(has_pattern) && {
            let [old, new] = self.restricts;
            old == new
        };
        let mut known: HashMap<Vec<u64>, (u8, bool)> = HashMap::new();
        product.explore(&Targets, is_limited.then_some(needed.as_slice()), &effort, |key, text| {
            let (tries, is_valid) = known.get(key).copied().unwrap_or_default();
            if tries < TRIES {
                let next = match self.combination(&text()) {
                    Tried::Decided => (TRIES, true),
                    Tried::Refused => (tries + 1, true),
                    Tried::Invalid => (tries + 1, is_valid),
                };
                known.insert(key.to_vec(), next);
                if self.is_done() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        if !self.is_done() && known.values().any(|(_, is_valid)| !is_valid) {
            self.doubt(|_| true);
        }
    }

    /// Marks the rules here that only one policy has as undecided.
    fn doubt(&mut self, which: impl Fn(&Rule) -> bool) {
        let parts = self.findings.sides.iter().zip(&mut self.findings.doubts).zip(&self.active);
        for (which_side, ((side, doubts), active)) in parts.enumerate() {
            for at in active.iter().filter(|at| !side.is_of_deny(**at)) {
                if self.candidates.contains(&(which_side, *at)) && side.rule(*at).is_some_and(&which) {
                    doubts.entry(*at).or_insert(Doubtful::Encoding);
                }
            }
        }
    }

    /// Compares the decisions about the target with this text for rules.
    fn combination(&mut self, text: &str) -> Tried {
        let target = encoded(text);
        let scheme = if self.host.is_ipv4().is_some() { Scheme::Http } else { Scheme::Https };
        if !self.findings.effort.spend((self.weight + 10).saturating_mul(50)) {
            return Tried::Decided;
        }
        let authority = Authority::new(self.host.clone(), None);
        let Ok(request) =
            Request::read(scheme, authority, self.method.as_str().as_bytes(), target.as_bytes())
        else {
            return Tried::Invalid;
        };
        let url = format!("{scheme}://{}{target}", self.host);
        if self.request(&request, &url) { Tried::Refused } else { Tried::Decided }
    }

    /// Compares the decisions about `request`; true if only `deny` or the check of vendor tools keeps
    /// them from differing, and perhaps not for other requests of this combination.
    fn request(&mut self, request: &Request, url: &str) -> bool {
        // Requests of the same combination may be pushes or not, and have keys or not, since these are
        // decoded repeatedly.
        let pushes: Vec<(bool, bool)> = if self.restricts.contains(&true) {
            let (could_push, is_bounded) = (could_push(request.target()), self.is_bounded(request));
            let may_be = |push: &bool| *push == could_push || !is_bounded && (!push || self.has_pushes);
            [false, true].into_iter().filter(may_be).map(|push| (push, push == could_push)).collect()
        } else {
            vec![(false, true)]
        };
        let may_have_key = self.has_keys && request.target().query().is_some();
        let mut found = Vec::new();
        for (push, is_real) in pushes {
            for has_key in [false, true].into_iter().filter(|key| !key || may_have_key) {
                let decisions = self.parts.each_ref().map(|part| {
                    let policy = if has_key { &part.own } else { &part.free };
                    policy.decide_by_rules(request, push && policy.has_repository_rules_for(&self.host))
                });
                let differences = self.differences(&decisions).into_iter();
                found.extend(differences.map(|difference| (is_real && !has_key, difference)));
            }
        }
        let is_refused = self.confirm(request, url, found);
        let has_other_key = request.target().query() != Some(KEY.as_bytes()) && query_has_key(request);
        if self.has_keys && has_other_key {
            // Others of this combination may have no key.
            self.doubt(|rule| matches!(rule.reach(request), Reach::All | Reach::Head));
        }
        is_refused
    }

    /// Lists the differences of `request` that the policies as a whole confirm, and doubts the others.
    fn confirm(&mut self, request: &Request, url: &str, found: Vec<(bool, Found)>) -> bool {
        let is_of_deny = |(side, at): &(usize, usize)| {
            self.findings.sides.get(*side).is_some_and(|side| side.is_of_deny(*at))
        };
        if found.is_empty() && !self.candidates.iter().any(is_of_deny) {
            return false;
        }
        let real = self.parts.each_ref().map(|part| part.whole.decide(request));
        let example = |body: Option<&ExampleBody>| Example {
            method: request.method().to_string(),
            url: url.to_owned(),
            body: body.cloned(),
        };
        self.denied(&real, &example);
        let is_denied = self.parts.each_ref().map(|part| is_always_denied(part, request));
        let mut is_refused = false;
        for (is_real, (side, at, body)) in found {
            let [this, other] = if side == 0 { [0, 1] } else { [1, 0] };
            let admits = |which: usize, body| {
                let (part, decision) = self.parts.get(which).zip(real.get(which))?;
                part.admits(decision, body)
            };
            // The body makes no difference if `deny` refuses the head, but may choose the rule.
            let is_chosen = admits(other, None).is_some() || admits(this, None) != Some(at);
            let shown = body.as_ref().filter(|_| is_chosen);
            let is_confirmed = admits(this, body.as_ref()) == Some(at) && admits(other, shown).is_none();
            if is_real && is_confirmed {
                if let Some(examples) = self.findings.examples.get_mut(side) {
                    examples.entry(at).or_insert_with(|| example(shown));
                }
            } else if is_denied.get(side) == Some(&true) {
                // No request of this combination is allowed there.
            } else if let Some(doubts) = self.findings.doubts.get_mut(side) {
                let reason = if is_real { Doubtful::Refused } else { Doubtful::Encoding };
                doubts.entry(at).or_insert(reason);
                is_refused |= is_real;
            }
        }
        is_refused
    }

    /// Whether all requests of the same combination are known to be pushes or not like this one: a rule
    /// names it, or targets that are too short.
    fn is_bounded(&self, request: &Request) -> bool {
        let rules = self
            .rules()
            .filter(|(side, at, _)| self.findings.sides.get(*side).is_some_and(|side| !side.is_of_deny(*at)));
        rules.filter(|(_, _, rule)| rule.allows_head(request)).any(|(_, _, rule)| {
            let pattern = rule.path().pattern();
            let is_short = pattern.steps().all(|(star, _)| !star)
                && !pattern.as_str().ends_with('*')
                && pattern.tokens().len() < PUSH_LENGTH
                && rule.git().is_none();
            !pattern.as_str().is_empty() && (pattern.is_exact() || is_short)
        })
    }

    /// An example for a rule of `deny` that only one policy has.
    fn denied(&mut self, real: &[Decision; 2], example: &impl Fn(Option<&ExampleBody>) -> Example) {
        let [old, new] = real;
        for (side, this, other) in [(0, old, new), (1, new, old)] {
            let (Decision::Deny(denial), Some(part)) = (this, self.parts.get(side)) else { continue };
            let at = denial.denied_by().and_then(|index| part.denied.get(index));
            let examples = self.findings.examples.get_mut(side);
            if let (Some(at), Some(examples), false) = (at, examples, matches!(other, Decision::Deny(_))) {
                examples.entry(*at).or_insert_with(|| example(None));
            }
        }
    }

    /// The side and the rule that allow a body which the other side does not.
    fn differences(&self, decisions: &[Decision; 2]) -> Vec<Found> {
        let ([old, new], [old_part, new_part]) = (decisions, &self.parts);
        if old == new {
            return Vec::new();
        }
        let is_push =
            |decision: &&Decision| matches!(decision, Decision::NeedsBody(check) if check.is_of_push());
        let of_push = self.bodies.iter().filter(|_| decisions.iter().any(|decision| is_push(&decision)));
        let mut differences = Vec::new();
        for body in std::iter::once(None).chain(of_push.map(Some)) {
            if !self.findings.effort.spend((self.weight + 50).saturating_mul(20)) {
                break;
            }
            match (old_part.admits(old, body), new_part.admits(new, body)) {
                (Some(at), None) => differences.push((0, at, body.cloned())),
                (None, Some(at)) => differences.push((1, at, body.cloned())),
                _ => {}
            }
        }
        differences
    }
}

/// The rules of which one alone can decide differently, and whether pushes may be judged differently. A
/// rule that both policies have decides alike, except where only one of them restricts pushes, and where
/// it allows a push that another one lets lose commits.
fn candidates(
    findings: &Findings<'_>,
    active: &[Vec<usize>; 2],
    [old, new]: [bool; 2],
    method: &Method,
) -> (Vec<(usize, usize)>, bool) {
    let sides = || findings.sides.iter().zip(active).enumerate();
    let is_other_git = sides().any(|(_, (side, active))| active.iter().any(|at| side.is_other_git(*at)));
    let mut candidates = Vec::new();
    for (which, (side, active)) in sides() {
        let alone = |at: &&usize| {
            let git = side.git(**at);
            let may_decide = git.is_none() || !services(method).is_empty();
            let pushes = || is_other_git && git.is_some_and(|git| !git.push.is_empty());
            may_decide
                && (side.unique.contains(at)
                    || !side.is_of_deny(**at) && old != new
                    || method.as_str() == "POST" && pushes())
        };
        candidates.extend(active.iter().filter(alone).map(|at| (which, *at)));
    }
    (candidates, is_other_git || old != new)
}

/// The methods that `rules` distinguish, and one that they do not know; first those of which vendors
/// refuse no endpoint.
pub(super) fn methods<'a>(rules: impl Iterator<Item = &'a UrlRule>) -> Vec<Method> {
    let mut named = BTreeSet::new();
    let mut has_git = false;
    for rule in rules {
        match rule.allowed() {
            Allowed::Everything => {}
            Allowed::Methods(methods) => {
                named.extend(methods.iter().filter(|method| !method.is_forbidden()).map(RuleMethod::as_str));
            }
            Allowed::Git(_) => {
                named.extend(["GET", "POST"]);
                has_git = true;
            }
        }
    }
    // Git's services have methods in upper case only.
    let lower = ["get", "post"].into_iter().filter(|_| has_git);
    let others = ["GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT"].into_iter().map(str::to_owned);
    let mut others = others.chain((1..).map(|length| "X".repeat(length)));
    let other = others.find(|other| !named.contains(other.as_str()));
    let all = other.into_iter().chain(named.iter().copied().chain(lower).map(str::to_owned));
    all.filter_map(|method| Method::from_wire(method.as_bytes()).ok()).collect()
}

/// Whether a rule, also one of `deny`, may cover requests with this method.
pub(super) fn covers_method(rule: &Rule, method: &Method) -> bool {
    match rule.as_url().map(UrlRule::allowed) {
        None | Some(Allowed::Everything) => true,
        Some(Allowed::Methods(methods)) => methods.iter().any(|listed| listed.matches(method)),
        Some(Allowed::Git(_)) => !services(method).is_empty(),
    }
}

fn services(method: &Method) -> &'static [(&'static str, Scope)] {
    match method.as_str() {
        "GET" => &SERVICES[..1],
        "POST" => &SERVICES[1..],
        _ => &[],
    }
}

/// The path patterns of `deny` of which one match suffices.
fn plain_forms(path: &PathPattern) -> impl Iterator<Item = PathPattern> {
    [Some(path.clone()), path.plain()].into_iter().flatten()
}

/// Whether `deny` forbids all requests of the same combination.
fn is_always_denied(part: &Part, request: &Request) -> bool {
    let target = request.target();
    part.whole.denied().iter().filter(|rule| rule.denies_some_path(request)).any(|rule| {
        rule.as_url().is_none_or(|rule| {
            rule.path().covers_every_path()
                || plain_forms(rule.path()).any(|path| {
                    // Servers' readings of a path join `//` before they drop a `/` at the end.
                    let plain = Some(target.path()).filter(|path| !path.contains("//"));
                    path.matches_text(target.for_matching())
                        || path.matches_text(target.path())
                        || plain
                            .and_then(|path| path.strip_suffix('/'))
                            .is_some_and(|text| path.matches_text(text))
                })
        })
    })
}

/// The target with this text for rules.
fn encoded(text: &str) -> String {
    let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let mut target = String::with_capacity(text.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            target.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(target, "%{byte:02X}");
        }
    }
    target + query
}
