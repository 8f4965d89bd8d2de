//! Fuzzes any DNS packet, of the task and of the name server.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::dns_packet(data));
