//! Reading and writing policies.
//!
//! Both formats become a [`located_yaml::Node`] tree first, which `document` takes: so both are validated alike. It knows where in the
//! tree a fault is, and the format finds that place in its text.

mod document;
mod error;
mod json;
mod yaml;

pub use error::ParseError;

pub(crate) use document::deserialize;
pub(crate) use document::from_yaml;
pub(crate) use json::from_json;
pub(crate) use json::to_json;
pub(crate) use yaml::to_yaml;
