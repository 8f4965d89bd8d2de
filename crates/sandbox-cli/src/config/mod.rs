//! The sources of settings: the environment, `.sandbox/sandbox.yaml`, and the host.

mod above;
mod ask;
mod conflict;
mod credentials;
mod engine;
mod env;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
mod outer;
mod places;
mod read;
mod schema;
mod services;
mod setting;
mod ssh;
mod time;
mod user;

pub(crate) use above::project_root;
pub(crate) use ask::AskProcess;
pub(crate) use credentials::{Advice, CredentialsFile, LoginEntry, Renewable};
pub(crate) use engine::{Podman, Service, find_engine, own_service};
pub(crate) use env::Environment;
#[cfg(test)]
pub(crate) use file::BuildNetwork;
pub(crate) use file::{BuildFile, ConfigFile, UpstreamFile, WorkspaceMode};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzed::settings_document;
pub(crate) use outer::{OuterFiles, check_without_policy};
pub(crate) use places::{Folder, Places, PolicySource, project_key};
pub(crate) use read::{InvalidConfiguration, read_text};
pub(crate) use schema::schema;
pub(crate) use ssh::SshFile;
pub(crate) use time::{duration, limit, time};
pub(crate) use user::{demand_ours, is_written_by_others, user_file};
