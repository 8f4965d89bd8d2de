//! Fuzzes any bytes in the place of a ClientHello.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::client_hello(data));
