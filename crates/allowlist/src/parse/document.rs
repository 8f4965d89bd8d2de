//! The document of a policy: the only definition of a valid one.

use located_yaml::Node;
use serde::Deserialize;
use serde::Deserializer;
use serde::de::Error;

use crate::budget::Budget;
use crate::host_pattern::HostPattern;
use crate::invalid_rule::InvalidRule;
use crate::policy::Allowlist;
use crate::policy::OuterPolicy;
use crate::preset::Preset;
use crate::rule::Rule;
use crate::rule::UrlRule;
use crate::vendor_tools::VendorTools;

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a mapping with the keys `presets`, `deny`, `domains`, `url_prefixes`, `vendor_tools` and `budget`"
)]
pub(super) struct Document {
    #[serde(default)]
    presets: Vec<Preset>,
    #[serde(default)]
    deny: Vec<DenyRule>,
    #[serde(default)]
    domains: Vec<HostPattern>,
    #[serde(default)]
    url_prefixes: Vec<UrlRule>,
    #[serde(default)]
    vendor_tools: VendorTools,
    #[serde(default)]
    budget: Budget,
}

/// An item of `deny`.
#[derive(Deserialize)]
#[serde(try_from = "Rule")]
struct DenyRule(Rule);

impl TryFrom<Rule> for DenyRule {
    type Error = InvalidRule;

    fn try_from(rule: Rule) -> Result<Self, InvalidRule> {
        if rule.git().is_some() { Err(InvalidRule::DeniedRepository) } else { Ok(Self(rule)) }
    }
}

impl From<Document> for Allowlist {
    fn from(document: Document) -> Self {
        let domains = document.domains.into_iter().map(Rule::from);
        Self::new(domains.chain(document.url_prefixes.into_iter().map(Rule::from)))
            .with_presets(document.presets)
            .with_denied(document.deny.into_iter().map(|DenyRule(rule)| rule).collect())
            .with_vendor_tools(document.vendor_tools)
            .with_budget(document.budget)
    }
}

/// Outer policies that the form between programs may have. Each is compared with all before it.
const OUTER: usize = 100;

/// The form between programs, which has outer policies too.
impl<'de> Deserialize<'de> for Allowlist {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut node = Node::deserialize(deserializer)?;
        let mut within = Node::List(Vec::new());
        if let Node::Map(entries) = &mut node {
            let is_within = |(key, _): &(Node, Node)| *key == Node::Text("within".to_owned());
            if let Some(at) = entries.iter().position(is_within) {
                within = entries.remove(at).1;
            }
        }
        if matches!(&within, Node::List(outer) if outer.len() > OUTER) {
            return Err(D::Error::custom(format!("a policy is within at most {OUTER} others")));
        }
        let document = located_yaml::from_node::<Document>(&node).map_err(D::Error::custom)?;
        let outer = located_yaml::from_node::<Vec<OuterPolicy>>(&within).map_err(D::Error::custom)?;
        Ok(Self::from(document).within_all(outer))
    }
}
