#![doc = include_str!("../README.md")]

mod input;
mod pieces;
mod seeds;

pub use input::Input;
pub use pieces::pieces;
pub use seeds::run_seeds;
