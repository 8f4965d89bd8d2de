//! The document of a policy: the one place that knows what a valid one is.

use located_yaml::InvalidFile;
use located_yaml::Location;
use located_yaml::Mismatch;
use located_yaml::Node;
use serde::Deserialize;
use serde::Deserializer;
use serde::de::Error;

use crate::budget::Budget;
use crate::host_pattern::HostPattern;
use crate::policy::Allowlist;
use crate::rule::Rule;
use crate::rule::UrlRule;
use crate::vendor_tools::VendorTools;

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a mapping with the keys `domains`, `url_prefixes`, `vendor_tools` and `budget`"
)]
struct Document {
    #[serde(default)]
    domains: Vec<HostPattern>,
    #[serde(default)]
    url_prefixes: Vec<UrlRule>,
    #[serde(default)]
    vendor_tools: VendorTools,
    #[serde(default)]
    budget: Budget,
}

impl From<Document> for Allowlist {
    fn from(document: Document) -> Self {
        let domains = document.domains.into_iter().map(Rule::from);
        Self::new(domains.chain(document.url_prefixes.into_iter().map(Rule::from)))
            .with_vendor_tools(document.vendor_tools)
            .with_budget(document.budget)
    }
}

impl Allowlist {
    /// Reads the YAML form; `file` only labels errors. An empty document is an empty policy.
    ///
    /// # Errors
    ///
    /// Anything but a policy in which every rule can match something: the error names line, column and the fix.
    pub fn from_yaml(text: &str, file: &str) -> Result<Self, InvalidFile> {
        let document = located_yaml::read::<Document>(file, text);
        let explained = |fault: InvalidFile| InvalidFile::new(fault.location(), explained(fault.message()));
        document.map(Self::from).map_err(explained)
    }
}

/// Reads the tree of `text`.
pub(super) fn from_tree(node: &Node, text: &str, file: &str) -> Result<Allowlist, InvalidFile> {
    let document = located_yaml::from_node::<Document>(node);
    let placed = |mismatch: Mismatch| {
        let location = Location::of_part(file, text, mismatch.steps());
        InvalidFile::new(&location, explained(mismatch.message()))
    };
    document.map(Allowlist::from).map_err(placed)
}

impl<'de> Deserialize<'de> for Allowlist {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = located_yaml::from_node::<Document>(&Node::deserialize(deserializer)?);
        document.map(Self::from).map_err(D::Error::custom)
    }
}

/// Some policies of other programs have this key, and it narrows what a rule allows.
fn explained(message: &str) -> String {
    message.replace(
        "unknown key `graphql`",
        "`graphql` is not supported, and ignoring it would allow more than is meant",
    )
}
