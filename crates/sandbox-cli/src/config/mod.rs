//! Where settings come from: the environment, `.sandbox/sandbox.yaml`, and what the machine offers.

mod above;
mod build;
mod conflict;
mod credentials;
mod document;
mod engine;
mod env;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
mod places;
mod read;
mod schema;
mod services;
mod setting;
mod ssh;
mod text;
mod time;
mod user;
mod workspace;

pub(crate) use above::project_root;
pub(crate) use build::BuildFile;
#[cfg(test)]
pub(crate) use build::BuildNetwork;
pub(crate) use credentials::{Advice, CredentialsFile, LoginEntry, Renewable};
pub(crate) use engine::{find_engine, own_service};
pub(crate) use env::Environment;
pub(crate) use file::{ConfigFile, UpstreamFile};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzed::settings_document;
pub(crate) use places::{Folder, Places, project_key};
pub(crate) use read::InvalidConfiguration;
pub(crate) use schema::schema;
pub(crate) use ssh::SshFile;
pub(crate) use text::read_text;
pub(crate) use time::{duration, limit, time};
pub(crate) use user::user_file;
pub(crate) use workspace::{WorkspaceFile, WorkspaceMode};
