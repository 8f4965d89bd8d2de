//! Reading and writing policies.
//!
//! Both formats are first parsed into a [`located_yaml::Node`] tree, which `document` validates, so
//! the rules are the same for both, and for a policy in a message. `document` reports where in the
//! tree an error is. JSON is YAML too, so one lookup finds its position in the text.

mod document;
#[cfg(feature = "yaml")]
mod json;
#[cfg(feature = "yaml")]
mod yaml;
