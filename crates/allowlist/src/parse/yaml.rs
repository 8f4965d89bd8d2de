//! The YAML form.

use located_yaml::InvalidFile;
use located_yaml::Location;
use located_yaml::Mismatch;
use located_yaml::Node;

use super::document::Document;
use crate::policy::Allowlist;

impl Allowlist {
    /// Reads the YAML form; `file` only labels errors. An empty document is an empty policy.
    ///
    /// # Errors
    ///
    /// Anything but a policy in which every rule can match something: the error names line, column
    /// and the fix.
    pub fn from_yaml(text: &str, file: &str) -> Result<Self, InvalidFile> {
        let document = located_yaml::read::<Document>(file, text);
        let explained = |error: InvalidFile| InvalidFile::new(error.location(), explained(error.message()));
        document.map(Self::from).map_err(explained)
    }

    /// Writes the YAML form.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        match serde_yaml::to_string(self) {
            Ok(text) => text,
            Err(error) => unreachable!("texts and lists of a policy are valid YAML: {error}"),
        }
    }
}

/// Reads the parsed tree of `text`.
pub(super) fn from_tree(node: &Node, text: &str, file: &str) -> Result<Allowlist, InvalidFile> {
    let document = located_yaml::from_node::<Document>(node);
    let placed = |mismatch: Mismatch| {
        let location = Location::of_part(file, text, mismatch.steps());
        InvalidFile::new(&location, explained(mismatch.message()))
    };
    document.map(Allowlist::from).map_err(placed)
}

/// Some policies of other programs have this key, which narrows a rule.
fn explained(message: &str) -> String {
    message.replace(
        "unknown key `graphql`",
        "`graphql` is not supported, and ignoring it would allow more than is meant",
    )
}

#[cfg(test)]
mod tests;
