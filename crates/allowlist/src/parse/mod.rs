//! Reading and writing policies.
//!
//! Both formats become a [`located_yaml::Node`] tree first; `document` turns the tree into a policy, and so validates both
//! alike. It says where in the tree a fault is, and the format finds that place in its text.

mod document;
mod error;
mod json;
mod yaml;

pub use error::ParseError;

pub(crate) use json::deserialize;
pub(crate) use json::from_json;
pub(crate) use json::to_json;
pub(crate) use yaml::from_yaml;
pub(crate) use yaml::to_yaml;
