//! Fuzzes any changes of a task to its copy of a tree.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_workspace::fuzzing::workspace_copy(data));
