//! The house rules that a program can check: the arrows between crates and between modules, lock
//! files, the shape of files, a budget for their size, forbidden code.

mod arrows;
mod bans;
mod circles;
mod hosts;
mod locks;
mod paths;
mod shape;
mod size;
mod source;
mod threats;

pub(crate) use self::arrows::check_arrows;
pub(crate) use self::source::{Finding, Source, sources};

pub(crate) use self::bans::check_bans;
pub(crate) use self::circles::check_circles;
pub(crate) use self::hosts::check_hosts;
pub(crate) use self::locks::check_locks;
pub(crate) use self::paths::check_paths;
pub(crate) use self::shape::check_shape;
pub(crate) use self::size::check_sizes;
pub(crate) use self::threats::check_threats;
