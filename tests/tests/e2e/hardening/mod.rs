//! Isolation as seen inside a container: each field works or is refused. Confining fields are
//! compared with a container that lacks only that field, the presets with podman alone.

mod files;
mod fixture;
mod presets;
mod process;
mod rights;
