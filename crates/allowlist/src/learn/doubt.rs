//! Hosts whose learnt rules need a second look: a task chooses the names in its log.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::host_pattern::HostPattern;
use crate::lint::covers_host;
use crate::policy::Allowlist;
use crate::preset::Preset;

use super::{LearnStep, Learnt};

/// Maximum length of an inconspicuous label, and of an inconspicuous name.
const LABEL: usize = 24;
const NAME: usize = 64;
/// Maximum number of digits of an inconspicuous label.
const DIGITS: usize = 8;
/// Maximum number of new hosts of one domain.
const SIBLINGS: usize = 8;
/// Maximum number of rules for one host.
const RULES: usize = 100;
/// Maximum number of new hosts.
const HOSTS: usize = 32;

/// The reason why rules for a host are proposed only if the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Doubt {
    /// A label is punycode, which may look like another name.
    International,
    /// It differs by one character, or by the order of two, from a host of the policy or of a preset,
    /// or from its domain; or it contains such a domain before others.
    Lookalike,
    /// A label of more than 24 characters or 8 digits, or more than 64 characters in all.
    Generated,
    /// Its domain has more than 8 new hosts.
    Siblings,
    /// It would get more than 100 rules.
    Rules,
    /// There are more than 32 other new hosts.
    Hosts,
}

impl Doubt {
    /// The reason as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::International => "an internationalized name (xn--)",
            Self::Lookalike => "the name resembles that of a known host",
            Self::Generated => "the name looks generated: it is long, or has many digits",
            Self::Siblings => "more than 8 new hosts under one domain",
            Self::Rules => "more than 100 rules for one host; consider a rule with a wildcard in its path",
            Self::Hosts => "more than 32 new hosts",
        }
    }
}

impl Learnt {
    /// Removes the rules for doubtful hosts unless `named` matches them, and returns these hosts,
    /// those with the most requests first. Hosts that `policy` or a preset names exactly are
    /// doubtful only for the number of their rules, and keep those that were generalised.
    pub fn remove_doubtful(
        &mut self,
        policy: &Allowlist,
        named: &[HostPattern],
    ) -> BTreeMap<Doubt, Vec<String>> {
        let doubts = self.doubts(policy, named);
        let mut requests: BTreeMap<&str, u64> = BTreeMap::new();
        for learnt in &self.rules {
            *requests.entry(learnt.rule.host().as_str()).or_default() += learnt.requests;
        }
        let mut hosts: BTreeMap<Doubt, Vec<String>> = BTreeMap::new();
        for (host, doubt) in &doubts {
            hosts.entry(*doubt).or_default().push(host.clone());
        }
        for hosts in hosts.values_mut() {
            hosts.sort_by_key(|host| std::cmp::Reverse(requests.get(host.as_str())));
        }
        self.rules.retain(|learnt| match doubts.get(learnt.rule.host().as_str()) {
            None => true,
            Some(Doubt::Rules) => learnt.step > LearnStep::Exact,
            Some(_) => false,
        });
        hosts
    }

    fn doubts(&self, policy: &Allowlist, named: &[HostPattern]) -> BTreeMap<String, Doubt> {
        let mut known: BTreeSet<&str> = policy.rules().iter().map(|rule| rule.host().as_str()).collect();
        // Named hosts count too: naming one must not release the others.
        let is_named = |host: &str| {
            let host = HostPattern::new(host);
            host.is_ok_and(|host| named.iter().any(|pattern| covers_host(pattern, &host)))
        };
        known.extend(Preset::all().flat_map(Preset::rules).map(|rule| rule.host().as_str()));
        let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
        for learnt in &self.rules {
            *rules.entry(learnt.rule.host().as_str()).or_default() += 1;
        }
        let mut new: BTreeSet<&str> = rules.keys().copied().filter(|host| !known.contains(host)).collect();
        let mut domains: BTreeMap<&str, usize> = BTreeMap::new();
        for host in &new {
            *domains.entry(domain(host)).or_default() += 1;
        }
        let known = Known::of(&known);
        let mut doubts = BTreeMap::new();
        for (host, count) in &rules {
            let is_name = new.contains(host) && host.parse::<Ipv4Addr>().is_err();
            let of_name = || is_name.then(|| doubtful_name(host, &known)).flatten();
            let has_siblings = || is_name && domains.get(domain(host)).is_some_and(|hosts| *hosts > SIBLINGS);
            let of_count = || {
                let siblings = has_siblings().then_some(Doubt::Siblings);
                siblings.or_else(|| (*count > RULES).then_some(Doubt::Rules))
            };
            if let Some(doubt) = of_name().or_else(of_count) {
                doubts.insert((*host).to_owned(), doubt);
            }
        }
        new.retain(|host| !doubts.contains_key(*host));
        if new.len() > HOSTS {
            doubts.extend(new.into_iter().map(|host| (host.to_owned(), Doubt::Hosts)));
        }
        doubts.retain(|host, _| !is_named(host));
        doubts
    }
}

/// The names that others may imitate.
struct Known<'a> {
    names: Vec<&'a str>,
    domains: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn of(hosts: &BTreeSet<&'a str>) -> Self {
        let names = hosts.iter().map(|host| host.strip_prefix("*.").unwrap_or(host));
        let is_name = |host: &&str| {
            host.contains('.') && !host.contains(['*', '?', '[']) && host.parse::<Ipv4Addr>().is_err()
        };
        let names: Vec<&str> = names.filter(is_name).collect();
        let domains = names.iter().map(|name| domain(name)).collect();
        Self { names, domains }
    }

    /// Whether a name of another domain looks like one of these, or like its domain.
    fn resembles(&self, host: &str) -> bool {
        let own = domain(host);
        let contains = |known: &str| format!(".{host}").contains(&format!(".{known}."));
        !self.domains.contains(own)
            && (self.names.iter().any(|known| is_one_edit(host, known))
                || self.domains.iter().any(|known| is_one_edit(own, known) || contains(known)))
    }
}

/// The last two labels.
fn domain(host: &str) -> &str {
    host.rmatch_indices('.').nth(1).and_then(|(at, _)| host.get(at + 1..)).unwrap_or(host)
}

fn doubtful_name(host: &str, known: &Known<'_>) -> Option<Doubt> {
    let any = |is: &dyn Fn(&str) -> bool| host.split('.').any(is);
    let digits = |label: &str| label.bytes().filter(u8::is_ascii_digit).count();
    if any(&|label| label.starts_with("xn--")) {
        Some(Doubt::International)
    } else if known.resembles(host) {
        Some(Doubt::Lookalike)
    } else if host.len() > NAME || any(&|label| label.len() > LABEL || digits(label) > DIGITS) {
        Some(Doubt::Generated)
    } else {
        None
    }
}

/// Whether one character is added, removed or replaced, or two neighbours are swapped.
fn is_one_edit(one: &str, other: &str) -> bool {
    let same = |pairs: &mut dyn Iterator<Item = (u8, u8)>| pairs.take_while(|(a, b)| a == b).count();
    let longer = one.len().max(other.len());
    let start = same(&mut one.bytes().zip(other.bytes()));
    let end = same(&mut one.bytes().rev().zip(other.bytes().rev()));
    let differing = |text: &str| text.as_bytes().get(start..longer - end).map(<[u8]>::to_vec);
    let is_swapped = || {
        let swapped = differing(one).map(|bytes| bytes.into_iter().rev().collect::<Vec<_>>());
        one.len() == other.len() && start + end + 2 == longer && swapped == differing(other)
    };
    one != other && one.len().abs_diff(other.len()) <= 1 && (start + end + 1 >= longer || is_swapped())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Asked;

    fn doubts(policy: &str, hosts: &[String], named: &[&str]) -> (Vec<String>, BTreeMap<Doubt, Vec<String>>) {
        let policy = Allowlist::from_yaml(policy, "p").unwrap();
        let named: Vec<HostPattern> = named.iter().map(|host| HostPattern::new(host).unwrap()).collect();
        let asked = hosts.iter().map(|host| Asked {
            method: "GET".to_owned(),
            url: format!("http://{host}/x"),
            count: 1,
            blocked: false,
            answered: true,
        });
        let mut learnt = policy.learn(asked, &[]);
        let doubts = learnt.remove_doubtful(&policy, &named);
        (learnt.rules.iter().map(|learnt| learnt.rule.host().to_string()).collect(), doubts)
    }

    #[test]
    fn name_that_looks_generated_or_imitates_is_doubtful() {
        use Doubt::{Generated, International, Lookalike};
        let policy = "domains: [packages.corp.example, '*.cdn.example', 10.0.0.1, registry]";
        for (host, expected) in [
            ("registry.test", None),
            ("files.packages.test", None),
            ("d111111abcdef8.cloud.test", None),
            ("very-long-name-of-bucket.test", None),
            ("10.0.0.2", None),
            ("intern", None),
            ("localhost.corp.example", None),
            // Hosts of presets, and others of their domains.
            ("api.github.com", None),
            ("gist.github.com", None),
            ("generativelanguage.googleapis.com", None),
            ("xn--bcher-kva.test", Some(International)),
            ("a.xn--bcher-kva.test", Some(International)),
            ("api.githud.com", Some(Lookalike)),
            ("github.co", Some(Lookalike)),
            ("api-github.com", Some(Lookalike)),
            ("api.github.com.evil.test", Some(Lookalike)),
            ("gihtub.com", Some(Lookalike)),
            ("www.github.com.evil.test", Some(Lookalike)),
            ("registry.npmjs.test", None),
            ("other.corq.example", Some(Lookalike)),
            ("packages.corp.examples", Some(Lookalike)),
            ("cdns.example", Some(Lookalike)),
            ("x.cdn.exampl", Some(Lookalike)),
            ("a23456789012345678901234.test", Some(Generated)),
            ("very-long-name-of-a-bucket.test", Some(Generated)),
            ("a.123456789.test", Some(Generated)),
            (&format!("{}test", "abcdefghi.".repeat(7)), Some(Generated)),
        ] {
            let (proposed, doubts) = doubts(policy, &[host.to_owned()], &[]);
            assert_eq!(doubts.into_keys().next(), expected, "{host}");
            assert_eq!(proposed.len(), usize::from(expected.is_none()), "{host}");
            // Control: naming it proposes its rule.
            assert_eq!(self::doubts(policy, &[host.to_owned()], &[host]).0, [host]);
        }
    }

    #[test]
    fn known_host_is_not_doubtful() {
        let hosts = ["xn--bcher-kva.test", "api.githud.com"].map(str::to_owned);
        let policy = "url_prefixes: [{host: xn--bcher-kva.test, path: /a}, {host: api.githud.com, path: /a}]";
        assert_eq!(doubts(policy, &hosts, &[]).0, ["api.githud.com", "xn--bcher-kva.test"]);
        // A pattern does not make names known that a task chose.
        let pattern = "url_prefixes: [{host: '*.test', path: /a}]";
        assert_eq!(doubts(pattern, &hosts, &[]).0, Vec::<String>::new());
    }

    #[test]
    fn flood_of_names_is_not_proposed() {
        let numbered = |count: usize, of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>();
        let apart = |at: usize| format!("site{at}.test");
        let nested = |at: usize| format!("a{at}.b{at}.evil.test");
        for (hosts, expected) in [
            (numbered(SIBLINGS, &nested), None),
            (numbered(SIBLINGS + 1, &nested), Some(Doubt::Siblings)),
            (numbered(2_000, &nested), Some(Doubt::Siblings)),
            (numbered(HOSTS, &apart), None),
            (numbered(HOSTS + 1, &apart), Some(Doubt::Hosts)),
            (numbered(2_000, &|at| format!("10.0.{}.{}", at / 256, at % 256)), Some(Doubt::Hosts)),
        ] {
            let (proposed, doubts) = doubts("", &hosts, &[]);
            let count = hosts.len();
            assert_eq!(proposed.len(), if expected.is_some() { 0 } else { count }, "{}", hosts[0]);
            let found: Vec<_> = doubts.into_iter().map(|(doubt, hosts)| (doubt, hosts.len())).collect();
            assert_eq!(found, expected.map(|doubt| (doubt, count)).into_iter().collect::<Vec<_>>());
            if expected.is_some() {
                assert_eq!(self::doubts("", &hosts, &[&hosts[0]]).0, [hosts[0].clone()], "only this one");
            }
            // Control: named hosts are proposed.
            let all = if hosts[0].contains("test") { "*.test" } else { "10.0.0.0" };
            assert!(self::doubts("", &hosts, &[all]).0.contains(&hosts[0]), "{}", hosts[0]);
        }
        let mixed = [numbered(100, &nested), vec!["registry.test".to_owned()]].concat();
        assert_eq!(doubts("", &mixed, &[]).0, ["registry.test"]);
    }

    #[test]
    fn flood_of_rules_for_a_host_is_not_proposed() {
        let asked = |at: usize| Asked {
            method: "POST".to_owned(),
            url: format!("https://a.test/{at}"),
            count: 1,
            blocked: false,
            answered: true,
        };
        let policy = Allowlist::from_yaml("url_prefixes: [{host: a.test, path: /x}]", "p").unwrap();
        for (paths, left) in [(RULES, RULES), (RULES + 1, 0)] {
            let mut learnt = policy.learn_up_to(LearnStep::Exact, (0..paths).map(asked), &[]);
            let doubts = learnt.remove_doubtful(&policy, &[]);
            assert_eq!((learnt.rules.len(), doubts.contains_key(&Doubt::Rules)), (left, left == 0));
        }
        // Rules that were generalised stay.
        let read = (0..9).map(|at| Asked { method: "GET".to_owned(), ..asked(at) });
        let mut learnt = policy.learn((0..=RULES).map(asked).chain(read), &[]);
        learnt.remove_doubtful(&policy, &[]);
        assert_eq!(learnt.rules.len(), 1);
    }
}
