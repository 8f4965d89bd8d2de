//! The executor: what it promises, on a real engine. What is about confinement and about limits stands beside a container that is weaker in
//! just that.

mod attacks;
mod bed;
mod behaviour;
mod crowd;
mod errors;
mod files;
mod host;
mod network;
mod output;
mod parallel;
mod timeouts;
mod workspace;
