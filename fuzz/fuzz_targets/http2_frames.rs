//! Fuzzes any HTTP/2 frames of a client.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::http2_frames(data));
