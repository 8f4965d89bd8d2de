//! Fuzzes any path and query.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::presigned_query(data));
