//! From a tree to a policy: the one place that knows what a valid document is.

use located_yaml::Node;
use located_yaml::Step;

use crate::host_pattern::HostPattern;
use crate::invalid_rule::InvalidRule;
use crate::method::RuleMethod;
use crate::path_pattern::PathPattern;
use crate::policy::Allowlist;
use crate::rule::Rule;
use crate::rule::UrlRule;

/// A fault and the way to it from the root of the tree.
#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) steps: Vec<Step>,
    pub(super) message: String,
}

/// Builds the policy, or tells the first fault in the order of the document.
pub(super) fn build(root: &Node) -> Result<Allowlist, Problem> {
    let place = Place::root(root);
    let mut rules = Vec::new();
    place.entries(
        "a policy is a mapping with the keys `domains` and `url_prefixes`",
        &POLICY_KEYS,
        |key, value| {
            if key == "domains" {
                let mend = "write each on a line of its own after `- `";
                rules.extend(value.items("`domains` is a list of hosts", mend, domain)?);
            } else {
                let mend = "write each after `- `, as in `- host: api.example.com`";
                rules.extend(value.items("`url_prefixes` is a list of mappings", mend, url_rule)?);
            }
            Ok(())
        },
    )?;
    Ok(Allowlist::new(rules))
}

const POLICY_KEYS: [&str; 2] = ["domains", "url_prefixes"];
const RULE_KEYS: [&str; 3] = ["host", "path", "methods"];

fn domain(place: &Place<'_>) -> Result<Rule, Problem> {
    let host = place.text("a host is a text")?;
    Ok(place.rule(HostPattern::new(host))?.into())
}

fn url_rule(place: &Place<'_>) -> Result<Rule, Problem> {
    let mut host = None;
    let mut path = None;
    let mut methods = Vec::new();
    let shape = "an entry of `url_prefixes` is a mapping with `host`, `path` and `methods`";
    place.entries(shape, &RULE_KEYS, |key, value| {
        match key {
            "host" => {
                let text = value.text("`host` is a text")?;
                host = Some(value.rule(HostPattern::new(text))?);
            }
            "path" => {
                let text = value.text("`path` is a text")?;
                path = Some(value.rule(PathPattern::new(text))?);
            }
            _ => {
                methods = value.items("`methods` is a list", "write it as in [GET, POST]", |item| {
                    item.rule(RuleMethod::new(item.text("a method is a text")?))
                })?;
            }
        }
        Ok(())
    })?;
    let Some(host) = host else {
        return Err(place.problem("the entry has no `host`: add one, as in `host: api.example.com`"));
    };
    let path = match path {
        Some(path) => path,
        None => place.rule(PathPattern::new(""))?,
    };
    Ok(UrlRule::from_parts(host, path, methods).into())
}

/// A node and how it was reached.
struct Place<'a> {
    node: &'a Node,
    parent: Option<(&'a Place<'a>, Step)>,
}

impl<'a> Place<'a> {
    fn root(node: &'a Node) -> Self {
        Self { node, parent: None }
    }

    fn problem(&self, message: impl Into<String>) -> Problem {
        let mut steps = Vec::new();
        let mut place = self;
        while let Some((parent, step)) = place.parent {
            steps.push(step);
            place = parent;
        }
        steps.reverse();
        Problem {
            steps,
            message: message.into(),
        }
    }

    /// A fault that a rule has by itself.
    fn rule<T>(&self, result: Result<T, InvalidRule>) -> Result<T, Problem> {
        result.map_err(|invalid| self.problem(invalid.to_string()))
    }

    fn wrong_type(&self, shape: &str) -> Problem {
        self.problem(format!("{shape}, not {}", self.node.kind()))
    }

    fn text(&self, shape: &str) -> Result<&'a str, Problem> {
        match self.node {
            Node::Text(text) => Ok(text),
            Node::Integer(_) | Node::Number(_) | Node::Boolean(_) => {
                Err(self.problem(format!("{shape}, not {}: put it in quotes", self.node.kind())))
            }
            _ => Err(self.wrong_type(shape)),
        }
    }

    fn items<T>(
        &self,
        shape: &str,
        mend: &str,
        read: impl Fn(&Place<'_>) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let Node::List(items) = self.node else {
            return Err(self.problem(format!("{shape}, not {}: {mend}", self.node.kind())));
        };
        let place = |(index, node)| Place {
            node,
            parent: Some((self, Step::Item(index))),
        };
        items.iter().enumerate().map(|item| read(&place(item))).collect()
    }

    /// Reads the entries of a mapping whose keys are `known`, each at most once and each with a value.
    fn entries(
        &self,
        shape: &str,
        known: &[&str],
        mut read: impl FnMut(&str, &Place<'_>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let Node::Map(entries) = self.node else {
            return Err(self.wrong_type(shape));
        };
        let mut seen = Vec::new();
        for (index, (key_node, node)) in entries.iter().enumerate() {
            let key = Place {
                node: key_node,
                parent: Some((self, Step::Key(index))),
            };
            let name = match key_node {
                Node::Text(name) if known.contains(&name.as_str()) => name.as_str(),
                Node::Text(name) => return Err(key.problem(unknown_key(name, known))),
                _ => {
                    return Err(key.problem(format!(
                        "a key is one of {}, not {}",
                        listed(known),
                        key_node.kind()
                    )));
                }
            };
            if seen.contains(&name) {
                return Err(key.problem(format!("`{name}` stands here a second time: merge the two")));
            }
            seen.push(name);
            if matches!(node, Node::Null) {
                return Err(key.problem(format!("`{name}` has no value: give it one or remove the key")));
            }
            read(
                name,
                &Place {
                    node,
                    parent: Some((self, Step::Value(index))),
                },
            )?;
        }
        Ok(())
    }
}

fn unknown_key(name: &str, known: &[&str]) -> String {
    let known = listed(known);
    if name == "graphql" {
        return format!(
            "`graphql` is not supported, and ignoring it would allow more than is meant: use {known} only"
        );
    }
    format!("unknown key {name:?}: use {known}")
}

fn listed(known: &[&str]) -> String {
    match known {
        [first @ .., last] if !first.is_empty() => format!("`{}` or `{last}`", first.join("`, `")),
        _ => format!("`{}`", known.concat()),
    }
}

/// The way to a fault in words, for where there is no text to point into.
pub(super) fn describe(root: &Node, steps: &[Step]) -> String {
    let mut described = String::new();
    let mut node = root;
    for step in steps {
        let next = match (node, step) {
            (Node::Map(entries), Step::Key(index) | Step::Value(index)) => {
                entries.get(*index).map(|(key, value)| {
                    if let Node::Text(name) = key {
                        described.push_str(if described.is_empty() { "" } else { "." });
                        described.push_str(name);
                    }
                    value
                })
            }
            (Node::List(items), Step::Item(index)) => {
                described.extend(["[", &index.to_string(), "]"]);
                items.get(*index)
            }
            _ => None,
        };
        let Some(next) = next else { break };
        node = next;
    }
    described
}
