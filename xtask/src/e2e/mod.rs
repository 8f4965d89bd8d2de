//! End-to-end tests: the programs that they need, their selection for each engine, and one run on
//! one engine.

mod folder;
mod programs;
mod run;
mod tiers;
mod world;

pub(crate) use self::programs::Programs;
pub(crate) use self::run::TestEngine;
pub(crate) use self::tiers::{Selection, additions, all, check, fast, joined, named};
