//! Reading and writing policies.
//!
//! Both formats become a [`located_yaml::Node`] tree first, which `document` takes: so both are
//! validated alike, and a policy in a message, too. It knows where in the tree a fault is. JSON is
//! YAML too, so that one way finds its place in the text.

mod document;
#[cfg(feature = "yaml")]
mod json;
#[cfg(feature = "yaml")]
mod yaml;
