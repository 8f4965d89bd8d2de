//! Jobs of a real Slurm: a controller and three nodes with rootless podman, which a test starts on
//! this machine, in namespaces of their own.

mod cluster;
mod jobs;
mod machine;
mod set_up;
