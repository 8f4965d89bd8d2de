//! Where settings come from: the environment, `.sandbox/sandbox.yaml`, and what the machine offers.

mod document;
mod engine;
mod env;
mod file;
mod places;
mod quantity;
mod reader;
mod yaml;

pub(crate) use engine::find_engine;
pub(crate) use env::Environment;
pub(crate) use file::{ConfigFile, UpstreamFile};
pub(crate) use places::{Folder, Places, project_key};
