//! A limit on the size of a container's root file system, on an engine whose storage has quotas: it
//! holds, cannot be bypassed, and ends with the container. `cargo xtask e2e` runs these tests on a
//! separate engine, whose storage is on btrfs.

mod disk;
mod escape;
mod limit;
