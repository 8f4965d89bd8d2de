//! The document of a policy: the one place that knows what a valid one is.

use located_yaml::InvalidFile;
use located_yaml::Location;
use located_yaml::Mismatch;
use located_yaml::Node;
use located_yaml::Position;
use located_yaml::Step;
use serde::Deserialize;
use serde::Deserializer;
use serde::de::Error;

use super::error::ParseError;
use crate::host_pattern::HostPattern;
use crate::policy::Allowlist;
use crate::rule::Rule;
use crate::rule::UrlRule;

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a mapping with the keys `domains` and `url_prefixes`"
)]
struct Document {
    #[serde(default)]
    domains: Vec<HostPattern>,
    #[serde(default)]
    url_prefixes: Vec<UrlRule>,
}

impl From<Document> for Allowlist {
    fn from(document: Document) -> Self {
        let domains = document.domains.into_iter().map(Rule::from);
        Self::new(domains.chain(document.url_prefixes.into_iter().map(Rule::from)))
    }
}

/// Reads the YAML form.
pub(crate) fn from_yaml(text: &str, file: &str) -> Result<Allowlist, ParseError> {
    let document = located_yaml::read::<Document>(file, text);
    let explained = |fault: InvalidFile| ParseError::new(fault.location(), &explained(fault.message()));
    document.map(Allowlist::from).map_err(explained)
}

/// Reads a tree of the JSON form, in which `locate` finds the place of a part.
pub(super) fn from_tree(
    node: &Node,
    file: &str,
    locate: impl FnOnce(&[Step]) -> Position,
) -> Result<Allowlist, ParseError> {
    let document = located_yaml::from_node::<Document>(node);
    let placed = |mismatch: Mismatch| {
        let location = Location::new(file, locate(&mismatch.steps()));
        ParseError::new(&location, &explained(mismatch.message()))
    };
    document.map(Allowlist::from).map_err(placed)
}

/// Reads a policy that is a part of something else.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Allowlist, D::Error> {
    let document = located_yaml::from_node::<Document>(&Node::deserialize(deserializer)?);
    document.map(Allowlist::from).map_err(D::Error::custom)
}

/// Some policies of other programs have this key, and it narrows what a rule allows.
fn explained(message: &str) -> String {
    message.replace(
        "unknown key `graphql`",
        "`graphql` is not supported, and ignoring it would allow more than is meant",
    )
}
