//! `sandbox verify`: it holds where it should, and each way to weaken a container makes it fail
//! where it should and nowhere else.

mod holds;
mod lying;
mod privileged;
mod report;
mod weakened;
