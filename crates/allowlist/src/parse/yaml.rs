//! The YAML form.

use located_yaml::Node;
use located_yaml::locate;
use located_yaml::parse;

use super::document;
use super::error::ParseError;
use crate::policy::Allowlist;

/// Reads the YAML form.
pub(crate) fn from_yaml(text: &str, file: &str) -> Result<Allowlist, ParseError> {
    let node = match parse(text).map_err(|fault| ParseError::new(file, fault.position, fault.message))? {
        // An empty document is an empty policy.
        Node::Null => Node::Map(Vec::new()),
        node => node,
    };
    document::build(&node)
        .map_err(|problem| ParseError::new(file, locate(text, &problem.steps), problem.message))
}

/// Writes the YAML form.
pub(crate) fn to_yaml(policy: &Allowlist) -> String {
    match serde_yaml::to_string(policy) {
        Ok(text) => text,
        Err(error) => unreachable!("a policy is made of texts and lists, which YAML can hold: {error}"),
    }
}

#[cfg(test)]
mod tests;
