//! A limit on what a container's root file system comes to, on an engine whose storage has quotas:
//! it holds, nothing leads around it, and it ends with the container. `cargo xtask e2e` runs these
//! on an engine of their own, whose storage lies on btrfs.

mod disk;
mod escape;
mod limit;
