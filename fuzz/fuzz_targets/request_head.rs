//! Fuzzes any bytes on an HTTP/1 connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::request_head(data));
