//! The lines of rights of policies.

use std::collections::BTreeSet;

use allowlist::{Anywhere, Budget, HostPattern, Preset, RefPattern, UrlRule, VendorTools};
use proptest::prelude::*;

use super::*;

fn lines(yaml: &str) -> Vec<String> {
    let policy = Allowlist::from_yaml(yaml, "x").unwrap();
    policy_rights(&policy).lines().iter().filter(|line| !line.starts_with("use unlimited")).cloned().collect()
}

#[test]
fn each_host_is_a_line_with_its_path_and_methods() {
    assert_eq!(
        lines(
            "domains: ['*.a.example']\nurl_prefixes:\n  - {host: b.example, path: '/v1/*', methods: [GET, POST]}\n  - {host: c.example}\n"
        ),
        [
            "reach *.a.example, any path: any method",
            "reach b.example, path `/v1/*`: GET, POST",
            "reach c.example, any path: any method",
        ]
    );
    assert_eq!(
        lines("domains: ['a.example*[a, path `/x`: get]']"),
        [r"reach `a.example*[a, path \x60/x\x60: get]`, any path: any method"]
    );
    let many: Vec<String> = (0..40).map(|number| format!("h{number}.example")).collect();
    assert_eq!(lines(&format!("domains: [{}]", many.join(", "))).len(), 40);
}

#[test]
fn each_pushed_ref_is_a_line_with_force_and_deletion() {
    assert_eq!(
        lines(
            "domains: [a.example]\nurl_prefixes:\n  - {host: a.example, path: /t/app, git: {push: [refs/heads/x, 'refs/tags/*'], force: true, delete: true}}\n  - {host: a.example, path: /t/lib, git: {}}\n"
        ),
        [
            "fetch from the repository a.example, path `/t/app`",
            "fetch from the repository a.example, path `/t/lib`",
            "push `refs/heads/x` to the repository a.example, path `/t/app`, also with force, also to delete it",
            "push `refs/tags/*` to the repository a.example, path `/t/app`, also with force, also to delete it",
            "reach a.example, any path: any method, but where repositories are named, push only to these",
        ]
    );
}

#[test]
fn named_repository_narrows_pushes_to_its_host_only() {
    let but = ", but where repositories are named, push only to these";
    let reach = |host: &str, repository: &str| {
        let yaml = format!(
            "domains: ['{host}', b.example]\nurl_prefixes: [{{host: '{repository}', path: /t, git: {{}}}}]"
        );
        let lines = lines(&yaml);
        let narrowed = |host: &str| lines.contains(&format!("reach {host}, any path: any method{but}"));
        (narrowed(host), narrowed("b.example"))
    };
    assert_eq!(reach("a.example", "a.example"), (true, false));
    assert_eq!(reach("*.example", "a.example"), (true, false));
    assert_eq!(reach("a.example", "*.example"), (true, true));
    assert_eq!(reach("a.example", "c.example"), (false, false));
}

#[test]
fn many_patterns_with_many_repositories_are_fast() {
    let hosts = (0..4000).map(|at| HostPattern::new(&format!("h{at}*.example")).unwrap());
    let repositories = (0..4000)
        .map(|at| UrlRule::repository(&format!("r{at}*.example"), "/x", GitRule::default()).unwrap().into());
    let policy = Allowlist::new(hosts.map(Rule::Domain).chain(repositories));
    let start = std::time::Instant::now();
    assert_eq!(policy_rights(&policy).lines().len(), 8001);
    assert!(start.elapsed() < std::time::Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn vendor_tools_with_wider_reach_need_trust() {
    assert_eq!(
        lines("vendor_tools: {web_search: policy, mcp: any, denied: refuse}"),
        [
            "let the model's vendor run mcp, which reaches any host",
            "let the model's vendor run web_search, for hosts of this policy",
            "refuse requests with a vendor's tool that is not allowed",
        ]
    );
    let needs = |yaml: &str| policy_rights(&Allowlist::from_yaml(yaml, "x").unwrap()).need_trust();
    assert!(needs("vendor_tools: {mcp: any}") && needs("presets: [github]"));
    assert!(!needs("vendor_tools: {web_search: policy}") && !needs("budget: {requests: 1}"));
}

#[test]
fn absent_budgets_are_listed() {
    let budget = |yaml: &str| policy_rights(&Allowlist::from_yaml(yaml, "x").unwrap());
    let with = budget("domains: [a.example]\nbudget: {requests: 9}");
    assert!(with.lines().contains("make at most 9 requests in a run"), "{with:?}");
    assert!(
        with.lines().contains("use unlimited bytes sent, bytes received, tokens read, tokens written"),
        "{with:?}"
    );
}

/// A rule, by its parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Reach { host: &'static str, path: &'static str, methods: BTreeSet<&'static str> },
    Fetch { host: &'static str, path: &'static str },
    Push { host: &'static str, path: &'static str, name: &'static str, force: bool, delete: bool },
}

const HOSTS: [&str; 4] = ["a.example", "*.example", "b.example", "a.example*[a, path `/x`: get]"];
const PATHS: [&str; 8] =
    ["", "/x", "/x`: GET", "/x`, path `/y`", "/x, path `/y`", "/x (preset github)", "/é", "/x: any method"];
const METHODS: [&str; 3] = ["GET", "POST", "DELETE"];
const REFS: [&str; 3] = ["refs/heads/*", "refs/heads/main", "*"];

fn part() -> impl Strategy<Value = Part> {
    let place = || (prop::sample::select(&HOSTS[..]), prop::sample::select(&PATHS[..]));
    prop_oneof![
        (place(), prop::sample::subsequence(&METHODS[..], 0..=3)).prop_map(|((host, path), methods)| {
            Part::Reach { host, path, methods: methods.into_iter().collect() }
        }),
        place().prop_map(|(host, path)| Part::Fetch { host, path }),
        (place(), prop::sample::select(&REFS[..]), any::<bool>(), any::<bool>())
            .prop_map(|((host, path), name, force, delete)| Part::Push { host, path, name, force, delete }),
    ]
}

impl Part {
    fn rule(&self) -> Rule {
        match self {
            Self::Reach { host, path: "", methods } if methods.is_empty() => {
                Rule::Domain(HostPattern::new(host).unwrap())
            }
            Self::Reach { host, path, methods } => {
                UrlRule::new(host, path, methods.iter().copied()).unwrap().into()
            }
            Self::Fetch { host, path } => UrlRule::repository(host, path, GitRule::default()).unwrap().into(),
            Self::Push { host, path, name, force, delete } => {
                let push = vec![RefPattern::new(name).unwrap()];
                let git = GitRule { push, force: *force, delete: *delete };
                UrlRule::repository(host, path, git).unwrap().into()
            }
        }
    }
}

/// The rights that a policy gives, as data.
#[derive(Debug, Clone, PartialEq)]
struct Given {
    parts: BTreeSet<Part>,
    presets: BTreeSet<usize>,
    tools: (Option<Reach>, bool, bool),
    budget: (Option<u64>, Option<u64>),
}

fn given() -> impl Strategy<Value = Given> {
    let reach = prop::option::of(prop::sample::select(&[Reach::Policy, Reach::Any][..]));
    let budget = || prop::option::of(0..3_u64);
    (
        prop::collection::btree_set(part(), 0..4),
        prop::collection::btree_set(0..Preset::all().len(), 0..2),
        (reach, any::<bool>(), any::<bool>()),
        (budget(), budget()),
    )
        .prop_map(|(parts, presets, tools, budget)| Given { parts, presets, tools, budget })
}

impl Given {
    fn policy(&self) -> Allowlist {
        let presets = self.presets.iter().filter_map(|at| Preset::all().nth(*at));
        let (web_search, executes, refuses) = self.tools;
        let tools = VendorTools {
            web_search,
            code_execution: executes.then_some(Anywhere::Any),
            denied: if refuses { Denied::Refuse } else { Denied::Remove },
            ..VendorTools::default()
        };
        let mut budget = Budget::default();
        (budget.requests, budget.output_tokens) = self.budget;
        let policy = Allowlist::new(self.parts.iter().map(Part::rule)).with_presets(presets);
        policy.with_vendor_tools(tools).with_budget(budget)
    }

    /// The same without redundant parts: a push includes a fetch, and a budget without limits
    /// bounds nothing.
    fn normal(mut self) -> Self {
        let pushed: Vec<Part> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Push { host, path, .. } => Some(Part::Fetch { host, path }),
                _ => None,
            })
            .collect();
        self.parts.extend(pushed);
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn policies_with_different_rights_have_different_texts(one in given(), other in given(), part in part()) {
        let text = |given: &Given| policy_rights(&given.policy()).lines().clone();
        let same = |one: &Given, other: &Given| one.clone().normal() == other.clone().normal();
        let mut near = one.clone();
        if !near.parts.remove(&part) {
            near.parts.insert(part);
        }
        let mixed = Given { parts: one.parts.clone(), ..other.clone() };
        for other in [&other, &near, &mixed] {
            prop_assert!(same(&one, other) || text(&one) != text(other), "{:?}", text(&one));
        }
        for line in text(&one) {
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}
