//! Hostile use of processes, memory, disk, descriptors and output: the task ends by its limits, and
//! everything else goes on. Each has its control.

mod disk;
mod events;
mod hostile;
mod mounts;
mod output;
mod processes;
mod side_by_side;
mod traffic;
