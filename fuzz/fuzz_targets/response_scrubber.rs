//! Fuzzes any answer that brings real values back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::response_scrubber(data));
