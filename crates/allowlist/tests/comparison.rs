//! The difference of two policies agrees with their decisions.

#![expect(clippy::unwrap_used, reason = "clippy treats helpers of tests as code outside of tests")]
#![expect(clippy::indexing_slicing, reason = "a test that meets the unexpected has failed")]

use std::collections::HashSet;
use std::fmt::Write as _;

use allowlist::Allowlist;
use allowlist::Comparison;
use allowlist::Decision;
use allowlist::Difference;
use allowlist::Doubtful;
use allowlist::ExampleBody;
use allowlist::GitRule;
use allowlist::HostPattern;
use allowlist::Match;
use allowlist::Preset;
use allowlist::PushReader;
use allowlist::Reach;
use allowlist::RefPattern;
use allowlist::Request;
use allowlist::Rule;
use allowlist::Scheme;
use allowlist::Step;
use allowlist::Undecided;
use allowlist::UrlRule;
use allowlist::VendorTools;

/// Policies in a group, of which each pair is compared, and requests for each group.
const POLICIES: usize = 23;
const REQUESTS: usize = 10_000;

const HOSTS: [&str; 30] = [
    "a.x",
    "b.x",
    "a.b.x",
    "api-1.x",
    "a.-",
    "github.com",
    "api.github.com",
    "generativelanguage.googleapis.com",
    "api.openai.test",
    "localhost",
    "10.0.0.1",
    "xn--a.x",
    "*",
    "*.x",
    "?.x",
    "[ab].x",
    "[!a].x",
    "a.[-1]",
    "api-[12].x",
    "*.b.x",
    "a.*",
    "*.com",
    "*.googleapis.com",
    "git*",
    "?????*",
    "*.localhost",
    "x*.x",
    "a*.x",
    "api.[a-o]*",
    "1[0-2].*",
];
const PATHS: [&str; 48] = [
    "",
    "",
    "*",
    "/*",
    "/",
    "/a",
    "/A",
    "/a*",
    "/a/*",
    "/a/",
    "/*/b",
    "/*/b/*",
    "/[ab]*",
    "/[a-c]",
    "/[!-~]",
    "/?",
    "/??",
    "*b",
    "/a[?]*",
    "/a?*",
    "/a[?]b",
    "/a[?][=&]*",
    "/a[?][!a]",
    "/a%41",
    "/a%*",
    "/*%2d*",
    "/*[?]service=*",
    "/[!m]*",
    "/me/*",
    "/me/r/git-receive-pack",
    "/me/r/git-upload-pack",
    "/me/r/info/refs[?]service=git-upload-pack",
    "/me/r.git/*",
    "/*git-*-pack",
    "/v1/*",
    "/v1*/models*",
    "/v1/responses",
    "/*[?]key*",
    "/*/info/*",
    "/*[?]*",
    "/a;*",
    "/a;v",
    "*//*",
    "/*[A-Z]*",
    "/*3F*",
    "/\u{e9}[\u{e0}-\u{ff}]",
    "/*.*",
    "/o/r/raw/*",
];
const REPOSITORIES: [&str; 10] =
    ["", "/me/r", "/me/r.git", "/me/*", "/*.git", "/me/?", "/m[ae]/r.g*", "/*/r*t", "/a", "*"];
const REFS: [&str; 8] = [
    "refs/heads/a/*",
    "refs/heads/*",
    "*",
    "refs/tags/?",
    "refs/heads/main",
    "refs/heads/[!m]*",
    "refs/*/x",
    "refs/heads/[a-\u{ffff}]",
];
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "HEAD", "X-A", "get"];
const TAILS: [&str; 12] = [
    "",
    "?",
    "/git-upload-pack",
    "/git-receive-pack",
    "/GIT-receive-pack",
    "/git%252dreceive-pack",
    "/info/refs",
    "/info/refs?service=git-upload-pack",
    "/info/refs?service=git-receive-pack",
    "?a;service=git-receive-pack",
    "?%6bey=1",
    "?a&key",
];
const SENT: [&str; 7] = ["GET", "GET", "POST", "POST", "get", "post", "X!"];

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn some<T: Clone>(&mut self, list: &[T], limit: usize) -> Vec<T> {
        (0..self.below(limit)).map(|_| self.of(list)).collect()
    }
}

/// A rule, as text.
#[derive(Clone, Debug)]
struct Written {
    host: String,
    path: Option<String>,
    methods: Vec<&'static str>,
    git: Option<GitRule>,
}

impl Written {
    fn any(random: &mut Random) -> Self {
        let host = random.of(&HOSTS).to_owned();
        match random.below(11) {
            0..=1 => Self { host, path: None, methods: Vec::new(), git: None },
            2..=7 => {
                let methods = random.some(&METHODS, 3);
                Self { host, path: Some(random.of(&PATHS).to_owned()), methods, git: None }
            }
            _ => {
                let push =
                    random.some(&REFS, 3).into_iter().map(|text| RefPattern::new(text).unwrap()).collect();
                let git = GitRule { push, force: random.one_in(2), delete: random.one_in(2) };
                let path = Some(random.of(&REPOSITORIES).to_owned());
                Self { host, path, methods: Vec::new(), git: Some(git) }
            }
        }
    }

    fn rule(&self) -> Option<Rule> {
        let path = match (&self.path, &self.git) {
            (None, _) => return HostPattern::new(&self.host).ok().map(Rule::from),
            (Some(path), Some(git)) => {
                return UrlRule::repository(&self.host, path, git.clone()).ok().map(Rule::from);
            }
            (Some(path), None) => path,
        };
        UrlRule::new(&self.host, path, self.methods.iter().copied()).ok().map(Rule::from)
    }

    /// A rule whose path is written in another way that servers may read alike.
    fn respelled(&self, random: &mut Random) -> Self {
        let respelled = |path: &String| match random.below(5) {
            0 => format!("{path}/"),
            1 => path.trim_end_matches('/').to_owned(),
            2 => path.replacen('/', "//", 1),
            3 => format!("{path};v"),
            _ => format!("{path}[?]a="),
        };
        Self { path: self.path.as_ref().map(respelled), git: None, ..self.clone() }
    }

    /// Rules that are nearly the same.
    fn near(&self, random: &mut Random) -> Vec<Self> {
        let mut one = self.clone();
        let mut two = self.clone();
        let replaced = |text: &str, from: &str, to: &str| text.replacen(from, to, 1);
        match random.below(8) {
            // A class becomes two rules, or loses a character.
            0 => {
                one.host = replaced(&self.host, "[ab]", "a");
                two.host = replaced(&self.host, "[ab]", "b");
                one.path = self.path.as_deref().map(|path| replaced(path, "[ab]", "a"));
                two.path = self.path.as_deref().map(|path| replaced(path, "[ab]", "b"));
                return vec![one, two];
            }
            1 => one.path = self.path.as_deref().map(|path| replaced(&replaced(path, "*", "?"), "[a", "[b")),
            2 => one.host = replaced(&replaced(&self.host, "*", "?*"), "[12]", "1"),
            3 => {
                // A rule that is covered.
                two.path = self.path.as_deref().map(|path| replaced(path, "*", "a*"));
                two.git = self.git.as_ref().map(|git| GitRule { force: false, ..git.clone() });
                return vec![two, one];
            }
            4 => one.methods = random.some(&METHODS, 3),
            5 => {
                one.path =
                    self.path.as_ref().map(|path| random.of(&[path.to_lowercase(), format!("{path}/")]));
            }
            6 => {
                one.git = self.git.as_ref().map(|git| GitRule { delete: !git.delete, ..git.clone() });
                one.path =
                    self.path.as_deref().map(|path| path.strip_suffix(".git").unwrap_or(path).to_owned());
            }
            _ => return vec![],
        }
        vec![one]
    }
}

/// A text that the pattern matches, or nearly.
fn instance(pattern: &str, random: &mut Random, letters: &[&str]) -> String {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            '*' => (0..random.below(3)).for_each(|_| text.push_str(random.of(letters))),
            '?' => text.push_str(random.of(letters)),
            '[' if rest.contains(']') => {
                let (class, after) = rest.split_once(']').unwrap_or_default();
                rest = after;
                let members: Vec<char> = class.chars().collect();
                let member = if members.is_empty() { ']' } else { random.of(&members) };
                if member == '!' || random.one_in(5) {
                    text.push_str(random.of(letters));
                } else {
                    text.push(member);
                }
            }
            other => text.push(other),
        }
    }
    if random.one_in(6) {
        text.push_str(random.of(letters));
    }
    text
}

fn encoded(text: &str) -> String {
    let mut target = String::new();
    let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    for character in path.chars() {
        if character.is_ascii_graphic() && !"#<>`\"".contains(character) {
            target.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                write!(target, "%{byte:02x}").unwrap();
            }
        }
    }
    target + query
}

fn requests(rules: &[Written], random: &mut Random) -> Vec<Request> {
    const HOST: [&str; 8] = ["a", "j", "k", "1", "2", "-", ".", "x"];
    const TARGET: [&str; 17] = [
        "/", "a", "b", ".", "%25", "%41", "%2541", "?", ";", "=", "&", "A", "m", "\u{e9}", "%20", "3F",
        "\u{85}",
    ];
    let mut requests = Vec::new();
    while requests.len() < REQUESTS {
        let rule = random.of(rules);
        let host = match random.below(10) {
            0 => (0..=random.below(5)).map(|_| random.of(&HOST)).collect(),
            1..=2 => random.of(&HOSTS[..12]).to_owned(),
            _ => instance(&rule.host, random, &HOST),
        };
        let path = random.of(rules).path.unwrap_or_default();
        let path = rule.path.filter(|_| !random.one_in(3)).unwrap_or(path);
        let path = instance(if path.is_empty() { "/*" } else { &path }, random, &TARGET);
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        let short = || format!("/{}", "");
        let path = if random.one_in(6) {
            (0..random.below(5)).fold(short(), |text, _| text + random.of(&TARGET))
        } else {
            path
        };
        let tail = if random.one_in(2) { random.of(&TAILS) } else { "" };
        let target = encoded(&format!("{path}{tail}"));
        let scheme = if host.parse::<std::net::Ipv4Addr>().is_ok() { Scheme::Http } else { Scheme::Https };
        let method = random.of(&SENT);
        requests.extend(Request::from_wire(scheme, host.as_bytes(), method.as_bytes(), target.as_bytes()));
    }
    requests
}

fn policy(rules: &[Written], denied: &[Written], random: &mut Random) -> Allowlist {
    let presets = Preset::all().filter(|preset| matches!(preset.name(), "github" | "openai" | "google"));
    let presets = random.some(&presets.collect::<Vec<_>>(), 3);
    let presets = if random.one_in(2) { presets } else { Vec::new() };
    let rules: Vec<Rule> = rules.iter().filter_map(Written::rule).collect();
    let web_search = random.one_in(20).then_some(Reach::Any);
    let hosts = if random.one_in(10) { vec![HostPattern::new("[ac]*.x").unwrap()] } else { Vec::new() };
    let policy = Allowlist::new(rules).with_presets(presets).with_vendor_tools(VendorTools {
        web_search,
        hosts,
        ..VendorTools::default()
    });
    denied.iter().filter_map(Written::rule).fold(policy, |policy, rule| policy.denying(&rule))
}

/// Policies with common rules, and others that are nearly the same.
fn policies(pool: &[Written], random: &mut Random) -> Vec<Allowlist> {
    let mut policies = Vec::new();
    while policies.len() < POLICIES {
        let mut rules = random.some(pool, 5);
        let mut denied = if random.one_in(3) { random.some(pool, 3) } else { Vec::new() };
        for rule in &mut denied {
            if random.one_in(2) {
                *rule = random.of(&rules.iter().chain([&*rule]).cloned().collect::<Vec<_>>());
                *rule = rule.respelled(random);
            }
        }
        // The same presets for all that are nearly the same.
        let seed = random.0;
        policies.push(policy(&rules, &denied, &mut Random(seed)));
        for _ in 0..random.below(5) {
            let mut near = rules.clone();
            if near.is_empty() || random.one_in(4) {
                near.reverse();
            } else {
                let at = random.below(near.len());
                let others = near[at].near(random);
                near.splice(at..=at, others);
            }
            policies.push(policy(&near, &denied, &mut Random(seed)));
            if random.one_in(2) {
                rules = near;
            }
        }
    }
    policies.truncate(POLICIES);
    policies
}

fn is_push(decision: &Decision) -> bool {
    matches!(decision, Decision::NeedsBody(check) if check.limit() == PushReader::LIMIT)
}

/// The rule that allows a request with this body.
fn allows(decision: &Decision, body: Option<&ExampleBody>) -> Option<Match> {
    let check = match decision {
        Decision::Allow(rule) => return Some(rule.clone()),
        Decision::Deny(_) => return None,
        Decision::NeedsBody(check) => check,
    };
    let (name, old, new) = match body.filter(|_| is_push(decision)) {
        None => return check.rule().cloned(),
        Some(ExampleBody::Update(name)) => (name, "0", "1"),
        Some(ExampleBody::Force(name)) => (name, "1", "2"),
        Some(ExampleBody::Delete(name)) => (name, "1", "0"),
        Some(_) => return None,
    };
    let command = format!("{} {} {name}\0", old.repeat(40), new.repeat(40));
    let command = format!("{:04x}{command}0000", command.len() + 4);
    match check.clone().advance(command.as_bytes(), true) {
        Ok(Step::Allow(admitted)) => {
            let free = !matches!(body, Some(ExampleBody::Force(_))) || admitted.fast_forwards.is_none();
            free.then_some(admitted.rule)
        }
        _ => None,
    }
}

fn bodies() -> Vec<Option<ExampleBody>> {
    let names =
        ["refs/heads/a", "refs/heads/a/b", "refs/heads/main", "refs/tags/1", "refs/a/x", "refs/heads/m1"];
    let mut bodies = vec![None, Some(ExampleBody::Unreadable)];
    for name in names.map(str::to_owned) {
        bodies.push(Some(ExampleBody::Update(name.clone())));
        bodies.push(Some(ExampleBody::Force(name.clone())));
        bodies.push(Some(ExampleBody::Delete(name)));
    }
    bodies
}

fn names(differences: &[Difference]) -> HashSet<String> {
    differences.iter().map(|difference| difference.rule.to_string()).collect()
}

/// Compares two policies and checks the result against their decisions.
fn check(
    [old, new]: [&Allowlist; 2],
    [olds, news]: [&[Decision]; 2],
    requests: &[Request],
    bodies: &[Option<ExampleBody>],
) -> Comparison {
    let comparison = old.compare(new);
    let shown = || format!("{}\n{}\n{comparison:#?}", old.to_json(), new.to_json());
    let mut allowed = names(&comparison.newly_allowed);
    let mut blocked = names(&comparison.newly_blocked);
    for rule in &comparison.undecided {
        if rule.allows { &mut allowed } else { &mut blocked }.insert(rule.rule.to_string());
    }
    let denied = names(&comparison.newly_denied);
    let restored = names(&comparison.no_longer_denied);
    for (request, (one, two)) in requests.iter().zip(olds.iter().zip(news)) {
        if one == two {
            continue;
        }
        let depends = is_push(one) || is_push(two);
        for body in bodies.iter().take(if depends { usize::MAX } else { 1 }) {
            let (which, rule, other, listed, denials) =
                match (allows(one, body.as_ref()), allows(two, body.as_ref())) {
                    (None, Some(rule)) => ("allowed", rule, (one, old), &allowed, &restored),
                    (Some(rule), None) => ("blocked", rule, (two, new), &blocked, &denied),
                    _ => continue,
                };
            let by_deny = match other {
                (Decision::Deny(denial), policy) => denial.denied_by().is_some_and(|index| {
                    policy
                        .denied_places()
                        .nth(index)
                        .is_some_and(|(rule, _)| denials.contains(&rule.to_string()))
                }),
                _ => false,
            };
            let by_tools = comparison.vendor_tools.is_some()
                && [old, new].iter().any(|policy| policy.vendor_tools().concerns(request.host()));
            assert!(
                listed.contains(&rule.to_string()) || by_deny || by_tools,
                "newly {which} by {rule}: {request:?} {body:?}\n{}",
                shown()
            );
        }
    }
    let confirmed =
        |differences: &[Difference], blocks: &Allowlist, allowing: Option<&Allowlist>, other: &Allowlist| {
            for Difference { rule, example, .. } in differences {
                let Some(example) = example else { continue };
                let allowing_decision = allowing.unwrap_or(other).judge(&example.method, &example.url);
                let found = allows(&allowing_decision, example.body.as_ref());
                let blocked = allows(&blocks.judge(&example.method, &example.url), example.body.as_ref());
                let is_by_it = allowing.is_none() || found.as_ref() == Some(rule);
                assert!(found.is_some() && is_by_it && blocked.is_none(), "{rule}: {example:?}\n{}", shown());
            }
        };
    confirmed(&comparison.newly_allowed, old, Some(new), new);
    confirmed(&comparison.newly_blocked, new, Some(old), old);
    confirmed(&comparison.newly_denied, new, None, old);
    confirmed(&comparison.no_longer_denied, old, None, new);
    comparison
}

/// 253 pairs, and 10,000 requests for each, near the patterns of their rules; 1,012 pairs with
/// `COMPARISON_GROUPS=4`.
#[test]
fn comparison_agrees_with_decisions() {
    let bodies = bodies();
    #[expect(clippy::disallowed_methods, reason = "the environment of a test is its command line")]
    let number = |name, default| std::env::var(name).map_or(default, |number| number.parse::<u64>().unwrap());
    // Another seed gives other policies and requests.
    let (groups, seed) = (number("COMPARISON_GROUPS", 1), number("COMPARISON_SEED", 0));
    let (mut pairs, mut undecided, mut same) = (0, 0, 0);
    for group in 0..groups {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed * 1_000 + group + 1));
        let pool: Vec<Written> = (0..12).map(|_| Written::any(&mut random)).collect();
        let requests = requests(&pool, &mut random);
        let policies = policies(&pool, &mut random);
        let decisions: Vec<Vec<Decision>> = policies
            .iter()
            .map(|policy| requests.iter().map(|request| policy.decide(request)).collect())
            .collect();
        for (index, (old, olds)) in policies.iter().zip(&decisions).enumerate() {
            for (new, news) in policies.iter().zip(&decisions).skip(index + 1) {
                let comparison = check([old, new], [olds, news], &requests, &bodies);
                pairs += 1;
                let is_undecided = |rule: &Undecided| rule.reason != Doubtful::VendorPush;
                undecided += usize::from(comparison.undecided.iter().any(is_undecided));
                same += usize::from(comparison.is_same());
            }
        }
    }
    assert!(same >= 5, "{same} pairs are the same");
    assert!(pairs >= 253 && undecided * 50 <= pairs, "{undecided} of {pairs} pairs");
}
