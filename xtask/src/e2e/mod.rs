//! End-to-end tests: the programs they need, which run where, and one run on one engine.

mod folder;
mod programs;
mod run;
mod tiers;
mod world;

pub(crate) use self::programs::Programs;
pub(crate) use self::run::TestEngine;
pub(crate) use self::tiers::{Selection, additions, all, check, fast, joined, named};
