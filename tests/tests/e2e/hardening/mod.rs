//! Isolation as a container sees it from inside: each field works, or asking for it is an error. Each has its control.

mod bed;
mod dropped;
mod files;
mod presets;
mod process;
mod rights;
