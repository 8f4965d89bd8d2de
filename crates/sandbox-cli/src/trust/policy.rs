//! The rights that an allowlist gives.

use std::collections::BTreeSet;

use allowlist::{Allowed, Allowlist, Denied, GitRule, Reach, Rule, RuleMethod, VendorTool};
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
        .filter(|rule| rule.git().is_some())
        .map(|rule| if rule.host().is_exact() { rule.host().as_str() } else { ANY })
        .collect();
    for (place, rule) in policy.places() {
        // A rule of a preset is narrower than the same rule of the policy, for example for paths
        // with a query.
        let preset = place.preset.map_or(String::new(), |name| format!(" (preset {name})"));
        let is_narrowed = repositories.contains(rule.host().as_str())
            || repositories.contains(ANY)
            || !(repositories.is_empty() || rule.host().is_exact());
        let but = if is_narrowed { ", but where repositories are named, push only to these" } else { "" };
        for line in lines(rule, but) {
            rights.ask(format!("{who}{line}{preset}"));
        }
    }
    for rule in policy.denied() {
        for line in lines(rule, "") {
            // The line begins with `reach`.
            rights.tell(format!("{who}never {line}"));
        }
    }
    vendor_tools(policy, who, &mut rights);
    budget(policy, who, &mut rights);
    rights
}

/// The rights that a rule gives; `but` ends those to reach a host.
fn lines(rule: &Rule, but: &str) -> Vec<String> {
    // Quoted, because character classes of a pattern may contain words.
    let host = plain_or_quoted(rule.host().as_str());
    let (path, allowed) = match rule {
        Rule::Domain(_) => ("", &Allowed::Everything),
        Rule::Url(rule) => (rule.path().as_str(), rule.allowed()),
    };
    let path = if path.is_empty() { "any path".to_owned() } else { format!("path {}", quoted(path)) };
    let methods = match allowed {
        Allowed::Everything => "any method".to_owned(),
        Allowed::Methods(methods) => methods.iter().map(RuleMethod::as_str).collect::<Vec<_>>().join(", "),
        Allowed::Git(git) => return repository(&format!("the repository {host}, {path}"), git),
    };
    vec![format!("reach {host}, {path}: {methods}{but}")]
}

/// The rights that a rule gives on the repository `place`.
fn repository(place: &str, git: &GitRule) -> Vec<String> {
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
