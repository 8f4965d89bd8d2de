//! Fuzzes any files of git.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox::fuzzing::git_files(data));
