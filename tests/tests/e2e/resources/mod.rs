//! Hostile use of processes, memory, disk, descriptors and output: limits end the task, and
//! everything else continues. Each test has its control.

mod disk;
mod events;
mod hostile;
mod mounts;
mod output;
mod processes;
mod side_by_side;
mod traffic;
