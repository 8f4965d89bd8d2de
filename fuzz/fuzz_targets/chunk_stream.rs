//! Fuzzes any body that is signed chunk by chunk.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::chunk_stream(data));
