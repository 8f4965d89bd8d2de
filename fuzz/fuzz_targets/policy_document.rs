//! Fuzzes any network policy.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_proxy::fuzzing::policy_document(data));
