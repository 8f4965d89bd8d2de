//! `sandbox verify`: it passes for intact containers, and each weakening of a container makes
//! exactly the checks concerned fail.

mod holds;
mod lying;
mod privileged;
mod report;
mod weakened;
