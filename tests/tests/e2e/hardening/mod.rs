//! Isolation as a container sees it from inside: each field works, or asking for it is an error.
//! Fields that confine stand beside a container that lacks just that; the presets stand beside
//! podman alone.

mod files;
mod fixture;
mod presets;
mod process;
mod rights;
