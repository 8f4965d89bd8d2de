#![doc = include_str!("../README.md")]

mod commit;
mod config;
mod error;
mod fail_point;
mod frozen;
mod git;
mod harvest;
mod import;
mod index;
mod index_file;
mod left;
mod limits;
mod linked;
mod listed;
mod object_id;
mod objects;
mod operation;
mod pack_file;
mod plan;
mod recorded;
mod ref_name;
mod refs;
mod report;
mod repository;
mod run_name;
mod settings;
mod stash;
mod state;
mod text;
mod view;

#[cfg(test)]
mod tests;

pub use config::{Setting, settings};
pub use error::Error;
pub use import::Import;
pub use index::Index;
pub use limits::Limits;
pub use linked::MainWorkTree;
pub use listed::WorkTreeFiles;
pub use recorded::{Recorded, Version};
pub use report::{Left, RefChange, RefOutcome, Report, SettingChange};
pub use repository::HostRepository;
pub use run_name::{InvalidRunName, RunName};
pub use state::Snapshot;
pub use view::View;
