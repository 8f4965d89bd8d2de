//! What fuzz targets have in common. Crates use it behind their feature `fuzzing` and in tests, and never in a program that is shipped.

mod input;
mod pieces;
mod seeds;

pub use input::Input;
pub use pieces::pieces;
pub use seeds::run_seeds;
