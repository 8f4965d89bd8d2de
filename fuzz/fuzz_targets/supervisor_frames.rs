//! Fuzzes any bytes from a supervisor.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox::fuzzing::supervisor_frames(data));
