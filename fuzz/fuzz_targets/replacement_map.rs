//! Fuzzes any replacement map.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::replacement_map(data));
