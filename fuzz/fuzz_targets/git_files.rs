//! Fuzzes any files of git.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_workspace::fuzzing::git_files(data));
