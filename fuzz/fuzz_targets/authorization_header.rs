//! Fuzzes any `Authorization` header.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::authorization_header(data));
