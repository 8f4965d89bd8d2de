//! The rights that an allowlist gives.

use std::collections::BTreeSet;

use allowlist::{Allowlist, Denied, GitRule, Reach, Rule, RuleMethod, UrlRule, VendorTool};
use sandbox::Network;

use super::Rights;
use super::amount::size;
use crate::printer::{plain_or_quoted, quoted};

/// Represents the hosts of all patterns.
const ANY: &str = "*";

/// The rights that a policy gives tasks.
pub(crate) fn policy_rights(policy: &Allowlist) -> Rights {
    of(policy, "")
}

/// The rights that the allowlist of image builds gives their steps.
pub(crate) fn build_policy_rights(network: &Network) -> Rights {
    match network {
        Network::Sandboxed(config) => of(config.allowlist(), "image builds: "),
        _ => Rights::default(),
    }
}

/// The rights, with the prefix `who`.
fn of(policy: &Allowlist, who: &str) -> Rights {
    let mut rights = Rights::default();
    // Compared as texts, since there may be many: if patterns may overlap, the line states what
    // holds in any case.
    let repositories: BTreeSet<&str> = policy
        .own_rules()
        .iter()
        .filter(|rule| git(rule).is_some())
        .map(|rule| if rule.host().is_exact() { rule.host().as_str() } else { ANY })
        .collect();
    for (place, rule) in policy.places() {
        // A rule of a preset is narrower than the same rule of the policy, for example for paths
        // with a query.
        let preset = place.preset.map_or(String::new(), |name| format!(" (preset {name})"));
        if let Some(git) = git(rule) {
            for line in repository(rule, git) {
                rights.ask(format!("{who}{line}{preset}"));
            }
            continue;
        }
        let is_narrowed = repositories.contains(rule.host().as_str())
            || repositories.contains(ANY)
            || !(repositories.is_empty() || rule.host().is_exact());
        let but = if is_narrowed { ", but where repositories are named, push only to these" } else { "" };
        rights.ask(format!("{who}reach {}{}{but}{preset}", host(rule), requests(rule)));
    }
    vendor_tools(policy, who, &mut rights);
    budget(policy, who, &mut rights);
    rights
}

fn url(rule: &Rule) -> Option<&UrlRule> {
    match rule {
        Rule::Url(rule) => Some(rule),
        _ => None,
    }
}

fn git(rule: &Rule) -> Option<&GitRule> {
    url(rule).and_then(UrlRule::git)
}

/// The hosts of a rule, quoted, because character classes of a pattern may contain words.
fn host(rule: &Rule) -> String {
    plain_or_quoted(rule.host().as_str())
}

/// The path of a rule, as text.
fn path(rule: &Rule) -> String {
    match url(rule).map(|rule| rule.path().as_str()) {
        None | Some("") => ", any path".to_owned(),
        Some(path) => format!(", path {}", quoted(path)),
    }
}

/// The requests that a rule allows to its host.
fn requests(rule: &Rule) -> String {
    let methods: Vec<&str> =
        url(rule).map(UrlRule::methods).unwrap_or_default().iter().map(RuleMethod::as_str).collect();
    let methods = if methods.is_empty() { "any method".to_owned() } else { methods.join(", ") };
    format!("{}: {methods}", path(rule))
}

/// The rights that a rule gives on a repository.
fn repository(rule: &Rule, git: &GitRule) -> Vec<String> {
    let place = format!("the repository {}{}", host(rule), path(rule));
    let also = match (git.force, git.delete) {
        (false, false) => "",
        (true, false) => ", also with force",
        (false, true) => ", also to delete it",
        (true, true) => ", also with force, also to delete it",
    };
    let push = |name: &str| format!("push {} to {place}{also}", quoted(name));
    let pushes = git.push.iter().map(|pattern| push(pattern.as_str()));
    std::iter::once(format!("fetch from {place}")).chain(pushes).collect()
}

fn vendor_tools(policy: &Allowlist, who: &str, rights: &mut Rights) {
    let tools = policy.vendor_tools();
    for tool in VendorTool::ALL {
        match tools.reach(tool) {
            Some(Reach::Any) => {
                rights.ask(format!("{who}let the model's vendor run {tool}, which reaches any host"));
            }
            Some(Reach::Policy) => {
                rights.tell(format!("{who}let the model's vendor run {tool}, for hosts of this policy"));
            }
            None => {}
        }
    }
    if tools.denied == Denied::Refuse {
        rights.tell(format!("{who}refuse requests with a vendor's tool that is not allowed"));
    }
    for host in &tools.hosts {
        let host = plain_or_quoted(host.as_str());
        rights.tell(format!("{who}judge requests to {host} as those to a model's vendor"));
    }
}

fn budget(policy: &Allowlist, who: &str, rights: &mut Rights) {
    let budget = policy.budget();
    let parts = [
        ("requests", budget.requests.map(|most| format!("make at most {most} requests"))),
        ("bytes sent", budget.sent.map(|most| format!("send at most {}", size(most)))),
        ("bytes received", budget.received.map(|most| format!("receive at most {}", size(most)))),
        ("tokens read", budget.input_tokens.map(|most| format!("let models read at most {most} tokens"))),
        (
            "tokens written",
            budget.output_tokens.map(|most| format!("let models write at most {most} tokens")),
        ),
    ];
    let mut absent = Vec::new();
    for (name, line) in parts {
        match line {
            Some(line) => rights.tell(format!("{who}{line} in a run")),
            None => absent.push(name),
        }
    }
    // Without any reachable host, no budget is used.
    if !absent.is_empty() && !policy.is_empty() {
        rights.tell(format!("{who}use unlimited {}", absent.join(", ")));
    }
}

#[cfg(test)]
mod tests;
